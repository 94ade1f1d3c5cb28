// eventually: for tests. Waits for a condition that another thread or process makes true.
//
//   ASSERT_TRUE(eventually([&] { return sink.count_of("dropped") == 1; }));
//
// Instead of sleeping: it looks, yields and looks again. The limit is a watchdog for what never
// comes true, generous for slow machines; it is not a statement about speed.
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

}  // namespace towpath::run
