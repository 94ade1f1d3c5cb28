#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/sys/os_error.h>
#include <towpath/sys/shared_file.h>

namespace towpath::sys {
namespace {

constexpr int kCareful = O_RDWR | O_CLOEXEC | O_NOFOLLOW;

Result<SharedFile> described(Fd fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0)
    return os_error(errno, cat("cannot look at '", printable(path, 256), "'"));
  if (!S_ISREG(info.st_mode))
    return error(Code::unsupported, cat("'", printable(path, 256), "' is no regular file"));
  return SharedFile{.fd = std::move(fd),
                    .identity = {.device = info.st_dev, .inode = info.st_ino},
                    .size_bytes = static_cast<std::uint64_t>(info.st_size)};
}

}  // namespace

Result<SharedFile> create_shared_file(const CreateSharedFile& options) {
  if (options.size_bytes == 0)
    return error(Code::invalid_argument, "a shared file of 0 bytes", "ask for at least 1 byte");
  Fd fd(::open(options.path.c_str(), kCareful | O_CREAT | O_EXCL, 0600));
  if (!fd) return os_error(errno, cat("cannot make '", printable(options.path, 256), "'"));
  const int failure = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(options.size_bytes));
  if (failure != 0) {
    (void)::unlink(options.path.c_str());
    return os_error(failure, cat("cannot reserve ", format_bytes(options.size_bytes), " for '",
                                 printable(options.path, 256), "'"));
  }
  return described(std::move(fd), options.path);
}

Result<SharedFile> open_shared_file(const std::string& path) {
  Fd fd(::open(path.c_str(), kCareful));
  if (!fd && errno == ELOOP)
    return error(Code::unsupported, cat("'", printable(path, 256), "' is a symbolic link"),
                 "name the file itself");
  if (!fd) return os_error(errno, cat("cannot open '", printable(path, 256), "'"));
  return described(std::move(fd), path);
}

}  // namespace towpath::sys
