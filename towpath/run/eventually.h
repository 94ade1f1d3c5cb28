// eventually, with_timeout: for tests. The first waits for a condition that another thread or
// process makes true.
//
//   ASSERT_TRUE(eventually([&] { return sink.count_of("dropped") == 1; }));
//
// Instead of sleeping: it looks, yields and looks again. The limit is a watchdog for what never
// comes true, generous for slow machines; it is not a statement about speed.
//
// The second is for a timeout that must end while others have been in time, on a machine that may
// stand still for a second: it tries with more and more.
// Thread: any.
#pragma once

#include <chrono>

#include <sched.h>

namespace towpath::run {

template <typename Condition>
bool eventually(Condition&& condition, std::chrono::seconds watchdog = std::chrono::seconds(30)) {
  const auto end = std::chrono::steady_clock::now() + watchdog;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return condition();
    sched_yield();
  }
  return true;
}

/// Whether `attempt` said of one of the timeouts it was given that all others came within it.
template <typename Attempt>
bool with_timeout(Attempt&& attempt, std::chrono::milliseconds timeout) {
  for (int tries = 0; tries < 4; ++tries, timeout *= 8)
    if (attempt(timeout)) return true;
  return false;
}

}  // namespace towpath::run
