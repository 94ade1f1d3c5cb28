#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <towpath/sys/fd.h>
#include <towpath/sys/os_error.h>

namespace towpath::sys {

void Fd::reset(int fd) noexcept {
  // Never retried: on Linux the descriptor is gone whatever close answers (close(2), EINTR).
  if (fd_ >= 0 && fd_ != fd) (void)::close(fd_);
  fd_ = fd;
}

Result<Fd> Fd::duplicate() const {
  if (fd_ < 0) return error(Code::not_ready, "cannot duplicate a descriptor that is not open");
  const int copy = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return os_error(errno, cat("cannot duplicate descriptor ", fd_));
  return Fd(copy);
}

std::size_t share_of_descriptors(std::size_t parts, std::size_t most) noexcept {
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return most;
  return std::clamp<std::size_t>(descriptors.rlim_cur / parts, 1, most);
}

}  // namespace towpath::sys
