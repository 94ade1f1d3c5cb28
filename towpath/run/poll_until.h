// poll_until: waits for what nobody announces, as a word that another process writes.
//
// It asks at once, gives the processor away a few times, then sleeps between questions, longer and
// longer, up to a millisecond. Thread: any.
#pragma once

#include <algorithm>

#include <towpath/core/clock.h>
#include <towpath/run/spin_then_wait.h>

namespace towpath::run {

/// Sleeps for that long by the kernel's time, or a little less.
void nap(Duration time) noexcept;

/// Whether `ready()` came true before it had slept for `timeout`; that is asked last.
template <typename Ready>
bool poll_until(Ready&& ready, Duration timeout) {
  constexpr Duration kShortest = std::chrono::microseconds(20);
  constexpr Duration kLongest = std::chrono::milliseconds(1);
  constexpr Looks kLooks{.spins = 64, .yields = 16};
  if (look_for(ready, kLooks)) return true;
  Duration sleep = kShortest;
  for (Duration slept{0}; slept < timeout; slept += sleep) {
    sleep = std::min({2 * sleep, kLongest, timeout - slept});
    nap(sleep);
    if (ready()) return true;
  }
  return false;
}

}  // namespace towpath::run
