// LeaderFollower: threads that wait for what progress brings about.
//
// One of them leads: it makes the progress and sleeps on the agent's poller in between. The others
// follow: they sleep until the leader has brought about what they wait for, or gives up the lead.
//
// A thread in the background serves: it makes progress when nobody else does, and never leads. Two
// threads that are woken for one message take the backend's lock from each other, and the
// processor. So it stands back while somebody leads, or has called progress() just now.
//
// Whoever sleeps in the poller has a waker of his own beside it, not in it. Others poll the poller
// too, and make progress, and clear what they find in it; a wake-up meant for him must outlast
// that. Thread: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/core/result.h>
#include <towpath/run/mutex.h>
#include <towpath/run/poller.h>
#include <towpath/run/spinning_idle.h>
#include <towpath/run/waker.h>
#include <towpath/run/yielding_idle.h>

namespace towpath::agent {

class LeaderFollower {
 public:
  using Condition = std::function<bool()>;
  /// What a thread in the background found: more to do, nothing, or that somebody else is at it.
  enum class Turn { more, idle, others_are_at_it };
  struct Wait {
    Duration timeout{0};
    /// It ends besides when it has slept for as long as `timeout`, should the clock stand still.
    bool counts_sleep = false;
  };

  /// However long a timeout: look at the clock again, which a test may have advanced meanwhile.
  static constexpr Duration kLongestSleep = std::chrono::milliseconds(50);

  struct Options {
    const run::Poller& poller;  ///< this and the clock outlive the room
    const Clock& clock;
    Duration longest_sleep = kLongestSleep;
    /// Whether to look for work before a sleep, or to give the processor away once; asked before
    /// each. None: to look.
    std::function<bool()> looks_pay = nullptr;
  };
  /// Errors: exhausted (no descriptor is free).
  static Result<std::unique_ptr<LeaderFollower>> open(Options options);

  /// Returns when `ready`, or after the time; without any time, after one `progress`, which returns
  /// whether there is more to do. What `progress` throws (std::bad_alloc) ends the wait.
  void wait(const Wait& wait, const Condition& ready, const std::function<bool()>& progress);
  /// Sleeps until there is something to make progress with, somebody calls wake(), or the time is
  /// up.
  void sleep_until_work(Duration timeout);

  /// One turn of a thread in the background: `progress`, and a sleep where there is nothing to do.
  /// While others make progress: a nap, after which it looks again whether they do.
  void serve(Duration timeout, const std::function<Turn()>& progress);
  /// Somebody who does not wait in here has made progress.
  void note_progress() noexcept;

  /// Something that a thread may wait for has come about: report() will say so. Call it at the
  /// change, under whatever lock it has, and report() afterwards without one.
  void note_change() noexcept;
  void notify() noexcept;
  /// A waker for a sleep elsewhere: woken by notify() as a follower is, until removed.
  void add_listener(run::Waker& waker);
  void remove_listener(run::Waker& waker);
  /// Makes every thread in here look again.
  void wake() noexcept;

 private:
  /// Who may sleep in the poller.
  struct Sleeper {
    std::unique_ptr<run::Waker> waker;
    run::SpinningIdleStrategy spinning;
    run::YieldingIdleStrategy yielding;
  };

  explicit LeaderFollower(Options options) : options_(std::move(options)) {}

  class Lead;
  bool take_lead();
  void give_up_lead();
  Duration time_until(Instant until) const;
  // Both return how long they slept at least, 0 when they were woken.
  Duration follow(Instant until, const Condition& ready);
  Duration sleep_leading(Instant until, const Condition& ready);
  /// Until there is work, a call to the sleeper, or the time is up (false).
  bool doze(Sleeper& sleeper, Duration time);
  /// False, at once: nobody else makes progress.
  bool stand_back(Duration timeout);
  void nap();

  const Options options_;
  Sleeper leader_;
  Sleeper background_;
  run::Mutex mutex_;
  run::CondVar changed_;
  run::CondVar woken_;  // who naps
  bool led_ TOWPATH_GUARDED_BY(mutex_) = false;
  std::uint64_t leads_ TOWPATH_GUARDED_BY(mutex_) = 0;       // taken so far
  std::uint64_t known_lead_ TOWPATH_GUARDED_BY(mutex_) = 0;  // for which it has stood back before
  std::atomic<std::int64_t> progress_at_{INT64_MIN};         // others', by the clock
  std::atomic<bool> has_background_{false};                  // relaxed: a hint, never taken back
  std::vector<run::Waker*> listeners_ TOWPATH_GUARDED_BY(mutex_);
  std::atomic<int> followers_{0};  // and listeners
  std::atomic<bool> leader_sleeps_{false};
  std::atomic<bool> has_changed_{false};
};

}  // namespace towpath::agent
