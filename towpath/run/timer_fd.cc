#include <algorithm>
#include <cerrno>
#include <cstdint>

#include <sys/timerfd.h>
#include <unistd.h>

#include <towpath/core/check.h>
#include <towpath/run/timer_fd.h>
#include <towpath/sys/os_error.h>

namespace towpath::run {

Result<TimerFd> TimerFd::open() {
  sys::Fd fd(timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!fd) return sys::os_error(errno, "cannot make a timerfd");
  return TimerFd(std::move(fd));
}

void TimerFd::arm(Instant at) noexcept {
  if (at == armed_at_) return;
  armed_at_ = at;
  itimerspec when{};
  if (at != Instant::never()) {
    // Zero would disarm (timerfd_settime(2)): a moment before the clock's start becomes its start.
    const std::int64_t nanoseconds = std::max<std::int64_t>(at.nanoseconds, 1);
    when.it_value = {.tv_sec = nanoseconds / 1'000'000'000, .tv_nsec = nanoseconds % 1'000'000'000};
  }
  const int answer = timerfd_settime(fd_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
  TOWPATH_CHECK(answer == 0, "timerfd_settime refuses a valid time");
}

void TimerFd::clear() noexcept {
  std::uint64_t expirations = 0;
  while (read(fd_.get(), &expirations, sizeof expirations) < 0 && errno == EINTR) {
  }
  disarm();
}

}  // namespace towpath::run
