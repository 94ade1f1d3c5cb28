// SpinningIdleStrategy: looks for a while before a sleep, for as long as the waits before have
// taught.
//
// Being woken is expensive on an idle core (tens of microseconds on a virtual machine), and looking
// is without effect where nothing comes soon: so it looks longer while waits are short, and not at
// all after a long one. On a crowded core it does harm: a thread that yields comes back when
// they are done, who sleeps is woken before that. So a look that took long ends it, for many waits;
// but not where those others were about the very thing, a thread of the kernel for one, and it is
// there when the core comes back. Thread: any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include <sched.h>

#include <towpath/core/clock.h>

namespace towpath::run {

class SpinningIdleStrategy {
 public:
  /// A look is about a microsecond.
  static constexpr std::uint32_t kMostLooks = 64;
  static constexpr Duration kSoon = std::chrono::microseconds(100);
  static constexpr Duration kCrowded = std::chrono::microseconds(20);
  /// Short waits that it lets pass after a crowded one before it looks again.
  static constexpr std::uint32_t kDistrust = 256;

  std::uint32_t looks() const noexcept { return looks_.load(std::memory_order_relaxed); }

  /// Whether `ready()` came true while it was polled.
  template <typename Ready>
  bool look(const Clock& clock, Ready&& ready) noexcept {
    std::uint32_t left = looks();
    for (Instant before = clock.now(); left > 0; --left) {
      if (ready()) return true;
      sched_yield();
      const Instant now = clock.now();
      if (now - before >= kCrowded) {
        if (now - before < kSoon && ready()) return true;
        looks_.store(0, std::memory_order_relaxed);
        distrust_.store(kDistrust, std::memory_order_relaxed);
        return false;
      }
      before = now;
    }
    return false;
  }

  /// How long the wait took in all. 0: by a clock that stands still, which says nothing.
  void learn(Duration waited) noexcept;

 private:
  // Each by itself: threads that mix them up look a little longer or shorter, no more.
  std::atomic<std::uint32_t> looks_{0};
  std::atomic<std::uint32_t> distrust_{0};
};

}  // namespace towpath::run
