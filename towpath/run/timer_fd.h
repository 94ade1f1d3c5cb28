// TimerFd: a moment of SystemClock as a descriptor that becomes readable (timerfd).
//
// So that a poller, and a poller in a poller, wakes for a deadline with nanosecond resolution.
// Thread: one at a time.
#pragma once

#include <towpath/core/clock.h>
#include <towpath/core/result.h>
#include <towpath/sys/fd.h>

namespace towpath::run {

class TimerFd {
 public:
  /// Errors: exhausted (no descriptor is free).
  static Result<TimerFd> open();

  /// Readable from `at` on (SystemClock); at once when `at` has passed, never for Instant::never().
  /// Replaces what was armed; arming the same moment again costs no system call.
  void arm(Instant at) noexcept;
  void disarm() noexcept { arm(Instant::never()); }
  /// Not readable any more, and disarmed, after it fired.
  void clear() noexcept;

  Instant armed_at() const noexcept { return armed_at_; }
  int fd() const noexcept { return fd_.get(); }

 private:
  explicit TimerFd(sys::Fd fd) noexcept : fd_(std::move(fd)) {}

  sys::Fd fd_;
  Instant armed_at_ = Instant::never();
};

}  // namespace towpath::run
