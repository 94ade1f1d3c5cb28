// Time, passed in. Nothing below `standard/` asks the machine for the time by itself: it is given a
// Clock, so that a test owns the time (ManualClock) and production reads the kernel's
// (SystemClock, sys/clock.h).
// Thread: any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace towpath {

using Duration = std::chrono::nanoseconds;

/// A point of a clock that never goes back; comparable only within one process.
struct Instant {
  std::int64_t nanoseconds = 0;

  friend constexpr auto operator<=>(Instant, Instant) = default;
  friend constexpr Instant operator+(Instant at, Duration by) noexcept {
    std::int64_t sum = 0;
    // A deadline that would wrap is one that never comes.
    if (__builtin_add_overflow(at.nanoseconds, static_cast<std::int64_t>(by.count()), &sum))
      return {by.count() > 0 ? INT64_MAX : INT64_MIN};
    return {sum};
  }
  friend constexpr Duration operator-(Instant a, Instant b) noexcept {
    return Duration(a.nanoseconds - b.nanoseconds);
  }
  static constexpr Instant never() noexcept { return {INT64_MAX}; }
};

class Clock {
 public:
  virtual ~Clock() = default;
  /// Never goes back.
  virtual Instant now() const noexcept = 0;
  /// Time since the Unix epoch; may jump. For reports only, never for deadlines.
  virtual Duration since_epoch() const noexcept = 0;
};

/// Stands still until it is moved.
class ManualClock final : public Clock {
 public:
  Instant now() const noexcept override { return {now_.load(std::memory_order_acquire)}; }
  Duration since_epoch() const noexcept override {
    return Duration(now_.load(std::memory_order_acquire));
  }
  // Release pairs with the loads above: whoever sees the new time sees what happened before it.
  void advance(Duration by) noexcept { now_.fetch_add(by.count(), std::memory_order_release); }

 private:
  std::atomic<std::int64_t> now_{1};
};

}  // namespace towpath
