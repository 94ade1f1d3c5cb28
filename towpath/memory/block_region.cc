#include <cerrno>
#include <string_view>

#include <sys/stat.h>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/memory/block_region.h>
#include <towpath/sys/os_error.h>

namespace towpath::memory {
namespace {

constexpr std::string_view kReadOnly = "ro:";
constexpr std::string_view kReadWrite = "rw:";

std::string device_named(const std::string& path) { return cat("'", printable(path, 256), "'"); }

Status check(const BlockOptions& options) {
  TOWPATH_TRY(BlockKey::parse(options.path));
  if (options.size_bytes == 0 || !checked_add(options.offset, options.size_bytes))
    return error(Code::invalid_argument,
                 cat("no such extent of ", device_named(options.path), ": ", options.size_bytes,
                     " bytes at ", options.offset),
                 "ask for at least 1 byte, and for no more than the device has");
  return {};
}

Result<std::uint64_t> number_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0)
    return sys::os_error(errno, cat("cannot look at the device ", device_named(path)));
  const bool is_device = S_ISCHR(info.st_mode) || S_ISBLK(info.st_mode);
  return static_cast<std::uint64_t>(is_device ? info.st_rdev : info.st_ino);
}

}  // namespace

std::string BlockKey::to_string() const {
  return cat(access == BlockAccess::read_write ? kReadWrite : kReadOnly, path);
}

Result<BlockKey> BlockKey::parse(const std::string& key) {
  BlockKey parsed{.path = key};
  if (key.starts_with(kReadWrite)) parsed.access = BlockAccess::read_write;
  if (key.starts_with(kReadWrite) || key.starts_with(kReadOnly)) parsed.path = key.substr(3);
  if (parsed.path.empty() || parsed.path.find('\0') != std::string::npos)
    return error(Code::invalid_argument, cat(device_named(key), " names no device"),
                 "use ro:/dev/ng0n1, or rw:/dev/ng0n1 where it may be written to");
  return parsed;
}

Result<std::shared_ptr<BlockRegion>> BlockRegion::create(const BlockOptions& options) {
  TOWPATH_TRY(check(options));
  TOWPATH_TRY(const std::uint64_t number, number_of(options.path));
  return std::make_shared<BlockRegion>(
      Private{}, RegionDescriptor{.kind = MemoryKind::block,
                                  .address = options.offset,
                                  .length = options.size_bytes,
                                  .device_id = number,
                                  .key = BlockKey{options.path, options.access}.to_string()});
}

}  // namespace towpath::memory
