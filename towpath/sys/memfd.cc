#include <algorithm>
#include <bit>
#include <cerrno>
#include <string>

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <towpath/core/checked.h>
#include <towpath/sys/mapping.h>
#include <towpath/sys/memfd.h>
#include <towpath/sys/os_error.h>

namespace towpath::sys {
namespace {

constexpr std::size_t kMaxName = 249;  // memfd_create(2)
constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

}  // namespace

Result<Fd> create_sealed_memfd(std::string_view name, std::uint64_t size_bytes,
                               std::uint64_t huge_page_bytes) {
  if (size_bytes == 0) return error(Code::invalid_argument, "shared memory of 0 bytes");
  if (size_bytes > INT64_MAX)
    return error(Code::invalid_argument, cat("shared memory of ", size_bytes, " bytes"));
  const std::uint64_t page_bytes = std::max<std::uint64_t>(huge_page_bytes, 1);
  if (!is_power_of_two(page_bytes) || size_bytes % page_bytes != 0)
    return error(Code::invalid_argument,
                 cat("shared memory of ", size_bytes, " bytes in pages of ", page_bytes));
  const unsigned page_flags =
      huge_page_bytes == 0
          ? 0
          : MFD_HUGETLB | static_cast<unsigned>(std::countr_zero(page_bytes)) << MFD_HUGE_SHIFT;
  Fd fd(::memfd_create(std::string(name.substr(0, kMaxName)).c_str(),
                       MFD_CLOEXEC | MFD_ALLOW_SEALING | page_flags));
  if (!fd) return os_error(errno, "cannot create a memfd");
  if (::ftruncate(fd.get(), static_cast<off_t>(size_bytes)) != 0)
    return os_error(errno, cat("cannot give a memfd ", size_bytes, " bytes"));
  if (::fcntl(fd.get(), F_ADD_SEALS, kSizeSeals | F_SEAL_SEAL) != 0)
    return os_error(errno, "cannot seal the size of a memfd");
  // The kernel sets pages aside when they are mapped, and leaves them so.
  if (huge_page_bytes != 0)
    TOWPATH_TRY(Mapping::of_file({.fd = fd.get(), .size_bytes = size_bytes}));
  return fd;
}

Status check_sealed(int fd, std::uint64_t at_least_bytes) {
  struct stat info {};
  if (::fstat(fd, &info) != 0)
    return os_error(errno, cat("cannot look at shared memory, descriptor ", fd));
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || !S_ISREG(info.st_mode))
    return error(Code::denied,
                 cat("descriptor ", fd, " is not a memfd, so its owner could shrink it"),
                 "share memory that create_sealed_memfd made");
  if ((seals & F_SEAL_SHRINK) == 0)
    return error(Code::denied,
                 cat("memfd ", fd, " is not sealed against shrinking (seals ", hex(seals), ")"),
                 "seal it with F_SEAL_SHRINK before sharing it");
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size < at_least_bytes)
    return error(Code::out_of_range,
                 cat("shared memory has ", size, " bytes, ", at_least_bytes, " were promised"));
  return {};
}

}  // namespace towpath::sys
