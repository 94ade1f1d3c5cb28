// What waits, on a machine that has slept: in a time namespace whose CLOCK_BOOTTIME is far ahead of
// its CLOCK_MONOTONIC, which stands still while a machine sleeps (time_namespaces(7)).
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <towpath/run/futex.h>
#include <towpath/run/mutex.h>
#include <towpath/run/poller.h>
#include <towpath/run/timer_fd.h>
#include <towpath/sys/clock.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

namespace towpath::run {
namespace {

constexpr std::chrono::seconds kSlept(10'000);
constexpr int kCannot = 77;
constexpr Duration kSoon = std::chrono::milliseconds(20);

/// What `body` returned in a process of a machine that has slept; kCannot: none can be had here.
int on_a_machine_that_slept(const std::function<int()>& body) {
  const auto wait = [](pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  };
  const pid_t outside = fork();
  if (outside > 0) return wait(outside);
  if (::unshare(CLONE_NEWTIME) != 0) _exit(kCannot);
  std::ofstream offsets("/proc/self/timens_offsets");
  offsets << "boottime " << kSlept.count() << " 0\n";
  offsets.close();
  if (!offsets) _exit(kCannot);
  const pid_t inside = fork();  // only children are in it
  if (inside == 0) _exit(body());
  _exit(wait(inside));
}

Duration monotonic() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

TEST(SleptMachineTest, time_went_on_and_deadlines_are_kept) {
  const int failed = on_a_machine_that_slept([] {
    ::alarm(100);  // a wait on another clock would take kSlept
    const sys::SystemClock clock;
    if (clock.now() - Instant{monotonic().count()} < kSlept - std::chrono::seconds(1)) return 1;
    const auto soon = [&] { return Deadline::after(clock, kSoon); };
    const std::atomic<std::uint32_t> word = 0;
    if (futex_wait(word, 0, {.deadline = soon()}) != FutexWait::timed_out) return 2;
    Mutex mutex;
    CondVar never;
    {
      const MutexLock lock(mutex);
      if (never.wait_until(mutex, soon())) return 3;
    }
    auto timer = TimerFd::open().value();
    auto poller = Poller::open().value();
    if (!poller.add(timer.fd(), 0).ok()) return 4;
    timer.arm(soon().at());
    return poller.wait(Duration::max()).size() == 1 ? 0 : 5;
  });
  if (failed == kCannot)
    GTEST_SKIP() << "no time namespace can be made here: it needs CAP_SYS_ADMIN, and Linux 5.6 or "
                    "newer with CONFIG_TIME_NS";
  EXPECT_EQ(failed, 0);
}

}  // namespace
}  // namespace towpath::run
