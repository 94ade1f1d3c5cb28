// GivingWay: gives the processor away once before a sleep, to a thread of the kernel that does what
// is waited for.
//
// That costs one switch where sleeping and being woken cost two and more, and one for all that the
// other gets done meanwhile. It is in vain, and cheap, where the other has a processor of its own.
// It does harm where a third takes the processor for long while what is waited for is there: who
// sleeps is woken before that. So a long one is followed by waits without: more of them each time,
// fewer again when it pays. Thread: any.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include <sched.h>

#include <towpath/core/clock.h>

namespace towpath::run {

class GivingWay {
 public:
  /// More than what is waited for should take.
  static constexpr Duration kLong = std::chrono::microseconds(250);
  static constexpr std::uint32_t kLeastDistrust = 16;
  static constexpr std::uint32_t kMostDistrust = 256;

  /// Whether `ready()` is true afterwards; false also where it did not give way.
  template <typename Ready>
  bool give_way(const Clock& clock, Ready&& ready) noexcept {
    // Each by itself: threads that mix them up give way a little more or less often, no more.
    if (const std::uint32_t left = distrust_.load(std::memory_order_relaxed); left > 0) {
      distrust_.store(left - 1, std::memory_order_relaxed);
      return false;
    }
    const Instant before = clock.now();
    sched_yield();
    if (!ready()) return false;
    const std::uint32_t next = next_distrust_.load(std::memory_order_relaxed);
    const bool was_long = clock.now() - before >= kLong;
    if (was_long) distrust_.store(next, std::memory_order_relaxed);
    next_distrust_.store(std::clamp(was_long ? 2 * next : next / 2, kLeastDistrust, kMostDistrust),
                         std::memory_order_relaxed);
    return true;
  }

 private:
  std::atomic<std::uint32_t> distrust_{0};
  std::atomic<std::uint32_t> next_distrust_{kLeastDistrust};
};

}  // namespace towpath::run
