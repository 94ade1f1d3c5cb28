// spin_then_wait: waits for a 32-bit word to change; first by looking, then asleep.
//
// Looking costs a core but answers in tens of nanoseconds; sleeping costs two context switches. The
// side that changes the word calls futex_wake afterwards.
// Thread: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include <sched.h>

#include <towpath/run/futex.h>

namespace towpath::run {

struct SpinOptions {
  /// How often to look before sleeping; about 10 to 40 ns each. 0 sleeps at once: right when both
  /// sides may share a core.
  std::uint32_t spins = 200;
  Deadline deadline = Deadline::never();  ///< on SystemClock
  FutexScope scope = FutexScope::private_to_process;
};

/// The new value, read with acquire (pairs with the changer's release), or nothing when the
/// deadline passed while the word still was `old`.
std::optional<std::uint32_t> spin_then_wait(const std::atomic<std::uint32_t>& word,
                                            std::uint32_t old, const SpinOptions& options = {});

/// Informs the core that this is a spinning loop.
inline void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

/// How long to look before sleeping.
struct Looks {
  std::uint32_t spins = 200;
  /// After them: give the core to whoever else wants it, and look again. Cheaper than sleeping when
  /// those who are waited for share the core.
  std::uint32_t yields = 0;
};

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
