// Deadline: the moment at which waiting ends.
//
// A point of the clock that the code was given. What waits in the kernel (futex, timer descriptor)
// takes it as a point of SystemClock, the kernel's; with a ManualClock use the poller
// and expired().
// Thread: immutable.
#pragma once

#include <towpath/core/clock.h>

namespace towpath::run {

class Deadline {
 public:
  constexpr explicit Deadline(Instant at) noexcept : at_(at) {}
  static constexpr Deadline never() noexcept { return Deadline(Instant::never()); }
  /// Long past: makes a wait a poll.
  static constexpr Deadline now() noexcept { return Deadline(Instant{0}); }
  /// `timeout` from now. One that does not fit 64 bits of nanoseconds never comes; a negative one
  /// has passed.
  static Deadline after(const Clock& clock, Duration timeout) noexcept {
    return Deadline(clock.now() + timeout);
  }

  constexpr Instant at() const noexcept { return at_; }
  constexpr bool is_never() const noexcept { return at_ == Instant::never(); }
  bool expired(const Clock& clock) const noexcept { return !is_never() && clock.now() >= at_; }
  /// Zero when it has passed, Duration::max() when it never comes.
  Duration remaining(const Clock& clock) const noexcept;

  static constexpr Deadline earlier(Deadline a, Deadline b) noexcept { return a < b ? a : b; }
  friend constexpr auto operator<=>(Deadline, Deadline) = default;

 private:
  Instant at_;
};

}  // namespace towpath::run
