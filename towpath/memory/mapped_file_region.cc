#include <unistd.h>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/memory/mapped_file_region.h>
#include <towpath/sys/shared_file.h>

namespace towpath::memory {
namespace {

std::string to_text(const sys::FileIdentity& identity) {
  return cat("device ", identity.device, " inode ", identity.inode);
}

Status check(const OpenMappedFile& options, const sys::SharedFile& file) {
  if (!is_power_of_two(options.alignment) || options.alignment > sys::page_size())
    return error(Code::invalid_argument,
                 cat("alignment ", options.alignment, " cannot be kept by a mapping"),
                 "a power of two, not above the page size");
  if (options.identity && *options.identity != file.identity)
    return error(Code::denied,
                 cat("'", printable(options.path, 256), "' is ", to_text(file.identity),
                     " and not the file that was reported, ", to_text(*options.identity)),
                 "it was replaced: ask its maker again");
  if (range_fits(options.offset, options.size_bytes, file.size_bytes) &&
      options.offset < file.size_bytes)
    return {};
  return error(Code::out_of_range,
               cat(options.size_bytes, " bytes at offset ", options.offset, " are not in '",
                   printable(options.path, 256), "' of ", file.size_bytes, " bytes"),
               "use the offset and size that its maker reported");
}

}  // namespace

Result<std::shared_ptr<MappedFileRegion>> MappedFileRegion::create(
    const CreateMappedFile& options) {
  TOWPATH_TRY(sys::SharedFile file,
              sys::create_shared_file({.path = options.path, .size_bytes = options.size_bytes}));
  auto mapping = sys::Mapping::of_file({.fd = file.fd.get(), .size_bytes = options.size_bytes});
  if (mapping.ok())
    return std::make_shared<MappedFileRegion>(Private{}, options.path, file, *std::move(mapping),
                                              true);
  (void)::unlink(options.path.c_str());  // we made it
  return mapping.status();
}

Result<std::shared_ptr<MappedFileRegion>> MappedFileRegion::open(const OpenMappedFile& options) {
  TOWPATH_TRY(sys::SharedFile file, sys::open_shared_file(options.path));
  TOWPATH_TRY(check(options, file));
  const std::uint64_t size_bytes =
      options.size_bytes > 0 ? options.size_bytes : file.size_bytes - options.offset;
  TOWPATH_TRY(sys::Mapping mapping,
              sys::Mapping::of_file(
                  {.fd = file.fd.get(), .offset = options.offset, .size_bytes = size_bytes}));
  return std::make_shared<MappedFileRegion>(Private{}, options.path, file, std::move(mapping),
                                            false);
}

MappedFileRegion::MappedFileRegion(Private, std::string path, const sys::SharedFile& file,
                                   sys::Mapping mapping, bool created)
    : path_(std::move(path)),
      identity_(file.identity),
      mapping_(std::move(mapping)),
      created_(created) {}

MappedFileRegion::~MappedFileRegion() {
  if (created_ && process_.is_this()) (void)::unlink(path_.c_str());
}

RegionDescriptor MappedFileRegion::descriptor() const {
  return {.kind = MemoryKind::system,
          .address = address_of(mapping_.data()),
          .length = mapping_.size()};
}

}  // namespace towpath::memory
