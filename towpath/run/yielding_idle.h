// YieldingIdleStrategy: gives the processor away once before a sleep, to a thread of the kernel
// that does what is waited for.
//
// That costs one switch where sleeping and being woken cost two and more, and one for all that the
// other gets done meanwhile. It has no effect where the other has a processor of its own: nobody
// takes this one. It does harm where a third takes it for long while what is waited for is there:
// who sleeps is woken before that. So one that was without effect, or long, is followed by waits
// without: more of them each time, fewer again when it pays. Thread: any.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include <sched.h>

#include <towpath/core/clock.h>

namespace towpath::run {

class YieldingIdleStrategy {
 public:
  /// Less than two switches and anything in between take.
  static constexpr Duration kInVain = std::chrono::microseconds(2);
  /// More than what is waited for should take.
  static constexpr Duration kLong = std::chrono::microseconds(250);
  static constexpr std::uint32_t kLeastDistrust = 16;
  static constexpr std::uint32_t kMostDistrust = 256;

  /// Whether `ready()` is true afterwards; false also where it did not yield.
  template <typename Ready>
  bool yield_once(const Clock& clock, Ready&& ready) noexcept {
    // Each by itself: threads that mix them up yield a little more or less often, no more.
    if (const std::uint32_t left = distrust_.load(std::memory_order_relaxed); left > 0) {
      distrust_.store(left - 1, std::memory_order_relaxed);
      return false;
    }
    const Instant before = clock.now();
    sched_yield();
    const bool is_ready = ready();
    const Duration took = clock.now() - before;
    const bool was_in_vain = took > Duration(0) && took < kInVain;  // 0: a clock that stands still
    if (!is_ready && !was_in_vain) return false;
    const bool was_wrong = was_in_vain || took >= kLong;
    const std::uint32_t next = next_distrust_.load(std::memory_order_relaxed);
    if (was_wrong) distrust_.store(next, std::memory_order_relaxed);
    next_distrust_.store(std::clamp(was_wrong ? 2 * next : next / 2, kLeastDistrust, kMostDistrust),
                         std::memory_order_relaxed);
    return is_ready;
  }

 private:
  std::atomic<std::uint32_t> distrust_{0};
  std::atomic<std::uint32_t> next_distrust_{kLeastDistrust};
};

}  // namespace towpath::run
