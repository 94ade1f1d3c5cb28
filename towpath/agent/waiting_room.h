// WaitingRoom: threads that wait for what progress brings about.
//
// One of them leads: it makes the progress and sleeps on the agent's poller in between. The others
// follow: they sleep until the leader has brought about what they wait for, or gives up the lead.
//
// The leader's own waker stands beside the poller, not in it. Others poll the poller too, and make
// progress, and clear what they find in it; a wake-up meant for the leader must outlast that.
// Thread: any.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include <towpath/core/clock.h>
#include <towpath/core/result.h>
#include <towpath/run/mutex.h>
#include <towpath/run/poller.h>
#include <towpath/run/waker.h>

namespace towpath::agent {

class WaitingRoom {
 public:
  using Condition = std::function<bool()>;
  struct Wait {
    Duration timeout{0};
    /// It ends besides when it has slept for as long as `timeout`, should the clock stand still.
    bool counts_sleep = false;
  };

  /// However long a timeout: look at the clock again, which a test may have advanced meanwhile.
  static constexpr Duration kLongestSleep = std::chrono::milliseconds(50);

  /// Errors: exhausted (no descriptor is free).
  static Result<std::unique_ptr<WaitingRoom>> open(const run::Poller& poller, const Clock& clock,
                                                   Duration longest_sleep = kLongestSleep);

  /// Returns when `ready`, or after the time. `progress` returns whether there is more to do.
  void wait(const Wait& wait, const Condition& ready, const std::function<bool()>& progress);
  /// Sleeps until there is something to make progress with, somebody calls wake(), or the time is
  /// up.
  void sleep_until_work(Duration timeout);

  /// Something that a thread may wait for has come about: tell() will say so. Call it at the
  /// change, under whatever lock it has, and tell() afterwards without one.
  void note_change() noexcept;
  void tell() noexcept;
  /// Makes every thread in here look again.
  void wake() noexcept;

 private:
  WaitingRoom(const run::Poller& poller, const Clock& clock, Duration longest_sleep)
      : poller_(poller), clock_(clock), longest_sleep_(longest_sleep) {}

  bool take_lead();
  void give_up_lead();
  Duration time_until(Instant until) const;
  // Both return how long they slept at least, 0 when they were woken.
  Duration follow(Instant until, const Condition& ready);
  Duration sleep_leading(Instant until, const Condition& ready);
  /// Until there is work, a call to the leader, or the time is up (false).
  bool doze(Duration time);

  const run::Poller& poller_;
  const Clock& clock_;
  const Duration longest_sleep_;
  std::unique_ptr<run::Waker> leader_waker_;
  run::Mutex mutex_;
  run::CondVar changed_;
  bool led_ TOWPATH_GUARDED_BY(mutex_) = false;
  std::atomic<int> followers_{0};
  std::atomic<bool> leader_sleeps_{false};
  std::atomic<bool> has_changed_{false};
};

}  // namespace towpath::agent
