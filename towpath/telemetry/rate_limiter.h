// RateLimiter: lets the first few of many equal messages through, and says how many it held back.
//
// A bucket of `burst` messages that fills at one per `every`. A place in the code that a peer can
// make speak owns one of these.
// Thread: any. No lock.
#pragma once

#include <atomic>
#include <cstdint>

#include <towpath/core/clock.h>

namespace towpath::telemetry {

class RateLimiter {
 public:
  struct Options {
    std::uint32_t burst = 5;                   ///< at least 1
    Duration every = std::chrono::seconds(1);  ///< 0 or less: no limit
  };

  /// `clock` must outlive the limiter.
  RateLimiter(const Clock& clock, Options options) noexcept;
  explicit RateLimiter(const Clock& clock) noexcept : RateLimiter(clock, Options{}) {}

  /// Whether this message may be said. A refusal is counted.
  bool admit() noexcept;
  /// How many were refused since this was last asked. Ask after an admit() and say it too.
  std::uint64_t take_suppressed() noexcept;

 private:
  const Clock* clock_;
  Options options_;
  // When the bucket will be full again. Relaxed, without a partner: it guards no other memory.
  std::atomic<std::int64_t> full_at_;
  std::atomic<std::uint64_t> suppressed_{0};
};

}  // namespace towpath::telemetry
