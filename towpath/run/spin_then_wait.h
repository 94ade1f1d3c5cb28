// spin_then_wait: waits for a 32-bit word to change; first by looking, then asleep.
//
// Looking costs a core but answers in tens of nanoseconds; sleeping costs two context switches. The
// side that changes the word calls futex_wake afterwards.
// Thread: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

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

}  // namespace towpath::run
