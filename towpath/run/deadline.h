// Deadline: the moment at which waiting ends.
//
// A point of the clock that the code was given. What waits in the kernel (futex, timer descriptor)
// takes it as a point of SystemClock, the kernel's; with a ManualClock use the poller
// and expired(). Looks and look_for(): polling before that.
// Thread: immutable.
#pragma once

#include <cstdint>

#include <sched.h>

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

/// How long to look before sleeping.
struct Looks {
  std::uint32_t spins = 200;
  /// After them: give the core to another thread that wants it, and look again. Cheaper than
  /// sleeping when those who are waited for share the core.
  std::uint32_t yields = 0;
};

/// Informs the core that this is a spinning loop.
inline void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

/// Whether `ready()` came true while it was polled; it has its own orders of memory.
template <typename Ready>
bool look_for(Ready&& ready, const Looks& looks) {
  for (std::uint32_t spin = 0; spin < looks.spins; ++spin) {
    if (ready()) return true;
    cpu_relax();
  }
  for (std::uint32_t yield = 0; yield < looks.yields; ++yield) {
    if (ready()) return true;
    sched_yield();
  }
  return ready();
}

}  // namespace towpath::run
