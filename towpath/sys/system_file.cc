#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <towpath/core/checked.h>
#include <towpath/sys/os_error.h>
#include <towpath/sys/system_file.h>

namespace towpath::sys {
namespace {

/// Calls until something else than EINTR comes back.
template <typename Call>
auto retry_interrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

Status check_extent(std::uint64_t offset, std::uint64_t length) {
  const auto end = checked_add(offset, length);
  if (end && *end <= INT64_MAX) return {};
  return error(Code::out_of_range,
               cat("offset ", offset, " + ", length, " bytes is behind the end of any file"));
}

struct flock whole_file(int type) {
  struct flock lock {};
  lock.l_type = static_cast<decltype(lock.l_type)>(type);
  return lock;
}

}  // namespace

Status SystemFile::failed(const char* verb, int errno_value) const {
  return os_error(errno_value, cat("cannot ", verb, " '", printable(path(), 256), "'"));
}

Result<std::size_t> SystemFile::read_at(ByteSpan into, std::uint64_t offset) {
  TOWPATH_TRY(check_extent(offset, into.size()));
  const ssize_t got = retry_interrupted(
      [&] { return ::pread(fd(), into.data(), into.size(), static_cast<off_t>(offset)); });
  if (got < 0) return failed("read", errno);
  return static_cast<std::size_t>(got);
}

Result<std::size_t> SystemFile::write_at(ConstByteSpan from, std::uint64_t offset) {
  TOWPATH_TRY(check_extent(offset, from.size()));
  const ssize_t put = retry_interrupted(
      [&] { return ::pwrite(fd(), from.data(), from.size(), static_cast<off_t>(offset)); });
  if (put < 0) return write_error(errno, cat("cannot write '", printable(path(), 256), "'"));
  return static_cast<std::size_t>(put);
}

Status SystemFile::sync() {
  if (retry_interrupted([&] { return ::fdatasync(fd()); }) != 0) return failed("sync", errno);
  return {};
}

void SystemFile::start_sync() {
  (void)::sync_file_range(fd(), 0, 0, SYNC_FILE_RANGE_WRITE);  // up to the end
}

// A folio that reaches beyond the range stays as it is (mapping_try_invalidate() in mm/truncate.c):
// both ends are moved to where the largest begins, 2^11 pages (MAX_XAS_ORDER).
void SystemFile::drop_cache(const FdRange& range) {
  const std::uint64_t largest = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) << 11U;
  const std::uint64_t begin = range.begin / largest * largest;
  const auto end = checked_add(range.begin, range.size_bytes);
  const bool has_end = end && *end <= INT64_MAX - largest;
  const std::uint64_t length =  // 0: up to the end of the file
      has_end ? (*end + largest - 1) / largest * largest - begin : 0;
  (void)::posix_fadvise(fd(), static_cast<off_t>(begin), static_cast<off_t>(length),
                        POSIX_FADV_DONTNEED);
}

// A child that was forked meanwhile has the descriptor too, and would keep the file.
SystemFile::~SystemFile() {
  if (!locked_by_ || !locked_by_->is_this()) return;
  (void)::flock(fd(), LOCK_UN);
  struct flock mark = whole_file(F_UNLCK);
  (void)::fcntl(fd(), F_OFD_SETLK, &mark);
}

Status SystemFile::lock() {
  if (retry_interrupted([&] { return ::flock(fd(), LOCK_EX | LOCK_NB); }) != 0)
    return failed("lock", errno);
  locked_by_.emplace();
  return {};
}

Status SystemFile::lock_for_process() {
  struct flock whole = whole_file(F_WRLCK);
  if (retry_interrupted([&] { return ::fcntl(fd(), F_SETLK, &whole); }) == 0) return {};
  return failed("lock", errno == EACCES ? EAGAIN : errno);  // POSIX leaves it open which
}

Status SystemFile::mark_in_use() {
  struct flock mark = whole_file(F_WRLCK);
  if (retry_interrupted([&] { return ::fcntl(fd(), F_OFD_SETLK, &mark); }) != 0)
    return failed("mark", errno == EACCES ? EAGAIN : errno);
  locked_by_.emplace();
  return {};
}

Result<bool> SystemFile::in_use() {
  struct flock mark = whole_file(F_WRLCK);  // what would be in its way
  if (retry_interrupted([&] { return ::fcntl(fd(), F_OFD_GETLK, &mark); }) != 0)
    return failed("ask for marks of", errno);
  return mark.l_type != F_UNLCK;
}

Result<std::uint64_t> SystemFile::size() {
  struct stat info {};
  if (::fstat(fd(), &info) != 0) return failed("ask the size of", errno);
  if (S_ISBLK(info.st_mode)) {
    // Of a drive, lseek(2) knows it; nothing here depends on where a descriptor stands.
    const off_t end = ::lseek(fd(), 0, SEEK_END);
    if (end < 0) return failed("ask the size of", errno);
    return static_cast<std::uint64_t>(end);
  }
  return static_cast<std::uint64_t>(info.st_size);
}

Status SystemFile::resize(std::uint64_t size_bytes) {
  TOWPATH_TRY(check_extent(0, size_bytes));
  const auto length = static_cast<off_t>(size_bytes);
  if (retry_interrupted([&] { return ::ftruncate(fd(), length); }) != 0)
    return failed("resize", errno);
  return {};
}

Status SystemFile::preallocate(std::uint64_t size_bytes) {
  TOWPATH_TRY(check_extent(0, size_bytes));
  if (size_bytes == 0) return {};
  TOWPATH_TRY(const std::uint64_t before, size());
  const auto length = static_cast<off_t>(size_bytes);
  if (retry_interrupted([&] { return ::fallocate(fd(), 0, 0, length); }) == 0) return {};
  const int reason = errno;
  Status status = reason == EOPNOTSUPP
                      ? fill_with_zeros(before, size_bytes)
                      : failed(cat("reserve ", format_bytes(size_bytes), " for").c_str(), reason);
  if (status.ok()) return status;
  // fallocate may have grown the file before it failed (tmpfs takes back, ext4 does not).
  Status restored = resize(before);
  return restored.ok() ? status : std::move(restored).because(std::move(status));
}

Status SystemFile::fill_with_zeros(std::uint64_t from, std::uint64_t until) {
  // A descriptor of its own, without O_DIRECT: the end need not be aligned. By /proc, because the
  // file may have no name.
  const Fd buffered(::open(cat("/proc/self/fd/", fd()).c_str(), O_WRONLY | O_CLOEXEC));
  if (!buffered) return failed("open again, to fill with zeros,", errno);
  static constexpr std::array<std::byte, 65536> kZeros{};
  while (from < until) {
    const std::uint64_t length = std::min<std::uint64_t>(kZeros.size(), until - from);
    const ssize_t put = retry_interrupted(
        [&] { return ::pwrite(buffered.get(), kZeros.data(), length, static_cast<off_t>(from)); });
    if (put <= 0) return failed("fill with zeros", put < 0 ? errno : EIO);
    from += static_cast<std::uint64_t>(put);
  }
  return {};
}

}  // namespace towpath::sys
