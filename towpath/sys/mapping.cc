#include <bit>
#include <cerrno>

#include <linux/magic.h>
#include <linux/mman.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <towpath/core/checked.h>
#include <towpath/sys/mapping.h>
#include <towpath/sys/os_error.h>

namespace towpath::sys {
namespace {

Status check_shape(const MapFile& options) {
  if (options.size_bytes == 0) return error(Code::invalid_argument, "cannot map 0 bytes");
  if (options.offset % page_size() != 0)
    return error(Code::invalid_argument, cat("map offset ", options.offset,
                                             " is not a multiple of the page, ", page_size()));
  if (address_of(options.at) % page_size() != 0)
    return error(Code::invalid_argument, cat("map address ", hex(address_of(options.at)),
                                             " is not a multiple of the page, ", page_size()));
  return {};
}

/// Devices have no size to compare with; the kernel refuses what they cannot map.
Status check_inside_file(const MapFile& options) {
  struct stat info {};
  if (::fstat(options.fd, &info) != 0)
    return os_error(errno, cat("cannot map descriptor ", options.fd));
  if (!S_ISREG(info.st_mode)) return {};
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (range_fits(options.offset, options.size_bytes, size)) return {};
  return error(Code::out_of_range,
               cat("cannot map ", options.size_bytes, " bytes at offset ", options.offset,
                   " of a file of ", size, " bytes"),
               "resize the file first: touching bytes behind its end is a SIGBUS");
}

/// Of a file in huge pages the kernel maps whole ones, and unmaps no part of one: munmap(2).
std::uint64_t mapped_bytes(const MapFile& options) {
  struct statfs place {};
  if (::fstatfs(options.fd, &place) != 0 || place.f_type != HUGETLBFS_MAGIC)
    return options.size_bytes;
  const auto whole = align_up(options.size_bytes, static_cast<std::uint64_t>(place.f_bsize));
  return whole.value_or(options.size_bytes);
}

}  // namespace

std::uint64_t page_size() noexcept { return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)); }

Mapping::~Mapping() {
  if (data_ != nullptr) (void)::munmap(data_, mapped_);
}

Result<Mapping> Mapping::anonymous(std::uint64_t size_bytes) {
  if (size_bytes == 0) return error(Code::invalid_argument, "cannot map 0 bytes");
  void* data =
      ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return os_error(errno, cat("cannot map ", format_bytes(size_bytes)));
  return Mapping(data, size_bytes, size_bytes);
}

Result<Mapping> Mapping::reserved_pages(std::uint64_t size_bytes, std::uint64_t page_bytes) {
  if (!is_power_of_two(page_bytes) || size_bytes == 0 || size_bytes % page_bytes != 0)
    return error(Code::invalid_argument,
                 cat("cannot map ", size_bytes, " bytes in pages of ", page_bytes));
  const int size_flag = std::countr_zero(page_bytes) << MAP_HUGE_SHIFT;
  void* data = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | size_flag, -1, 0);
  if (data == MAP_FAILED)
    return os_error(errno, cat("cannot map ", format_bytes(size_bytes), " in huge pages of ",
                               format_bytes(page_bytes)));
  return Mapping(data, size_bytes, size_bytes);
}

Result<Mapping> Mapping::of_file(const MapFile& options) {
  TOWPATH_TRY(check_shape(options));
  TOWPATH_TRY(check_inside_file(options));
  const int protection = PROT_READ | (options.writable ? PROT_WRITE : 0);
  const int flags = MAP_SHARED | (options.at != nullptr ? MAP_FIXED_NOREPLACE : 0);
  void* data = ::mmap(options.at, options.size_bytes, protection, flags, options.fd,
                      static_cast<off_t>(options.offset));
  if (data == MAP_FAILED && errno == EEXIST)
    return error(Code::already_exists,
                 cat("cannot map ", options.size_bytes, " bytes at ", hex(address_of(options.at)),
                     ": the place is taken"),
                 "choose another address");
  if (data == MAP_FAILED)
    return os_error(errno, cat("cannot map ", options.size_bytes, " bytes of descriptor ",
                               options.fd, options.writable ? " for writing" : ""));
  const std::uint64_t mapped = mapped_bytes(options);
  Mapping mapping(data, options.size_bytes, mapped);
  if (!options.inherited && ::madvise(data, mapped, MADV_DONTFORK) != 0)
    return os_error(errno, "cannot keep a mapping from forked children");
  // Before Linux 4.17 the flag is unknown and the address only a hint.
  if (options.at != nullptr && data != options.at)
    return error(Code::already_exists,
                 cat("the kernel maps at ", hex(address_of(data)), " instead of ",
                     hex(address_of(options.at))),
                 "choose another address");
  return mapping;
}

}  // namespace towpath::sys
