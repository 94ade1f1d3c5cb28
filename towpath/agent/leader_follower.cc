#include <algorithm>

#include <towpath/agent/leader_follower.h>
#include <towpath/run/deadline.h>

namespace towpath::agent {
namespace {

/// Who asks more seldom than this does not keep things moving. A nap is what a message waits at
/// most when the others have just stopped; 5,000 of them in a second are about 1 percent of a
/// processor.
constexpr Duration kRecently = std::chrono::microseconds(100);
constexpr Duration kNap = std::chrono::microseconds(200);

}  // namespace

Result<std::unique_ptr<LeaderFollower>> LeaderFollower::open(Options options) {
  std::unique_ptr<LeaderFollower> room(new LeaderFollower(std::move(options)));
  TOWPATH_TRY(room->leader_.waker, run::Waker::open());
  TOWPATH_TRY(room->background_.waker, run::Waker::open());
  return room;
}

void LeaderFollower::note_change() noexcept { has_changed_.store(true, std::memory_order_seq_cst); }

// Sequentially consistent throughout: a waiter counts itself (or says that it sleeps) and then
// looks at what it waits for; we changed that first and look at the count now, so one of the two
// sees the other.
void LeaderFollower::notify() noexcept {
  if (!has_changed_.load(std::memory_order_relaxed)) return;
  if (!has_changed_.exchange(false, std::memory_order_seq_cst)) return;
  if (followers_.load(std::memory_order_seq_cst) > 0) {
    run::MutexLock lock(mutex_);
    changed_.wake_all();
    for (run::Waker* const listener : listeners_) listener->wake();
  }
  if (leader_sleeps_.load(std::memory_order_seq_cst)) leader_.waker->wake();
}

void LeaderFollower::add_listener(run::Waker& waker) {
  run::MutexLock lock(mutex_);
  listeners_.push_back(&waker);
  followers_.fetch_add(1, std::memory_order_seq_cst);
}

void LeaderFollower::remove_listener(run::Waker& waker) {
  run::MutexLock lock(mutex_);
  std::erase(listeners_, &waker);
  followers_.fetch_sub(1, std::memory_order_seq_cst);
}

void LeaderFollower::wake() noexcept {
  leader_.waker->wake();
  background_.waker->wake();
  run::MutexLock lock(mutex_);
  changed_.wake_all();
  woken_.wake_all();
}

/// The lead, if nobody has it. Given up also where what the leader calls runs out of memory.
class LeaderFollower::Lead {
 public:
  explicit Lead(LeaderFollower& room) : room_(room), is_held_(room.take_lead()) {}
  Lead(const Lead&) = delete;
  Lead& operator=(const Lead&) = delete;
  ~Lead() {
    if (is_held_) room_.give_up_lead();
  }
  explicit operator bool() const noexcept { return is_held_; }

 private:
  LeaderFollower& room_;
  const bool is_held_;
};

bool LeaderFollower::take_lead() {
  run::MutexLock lock(mutex_);
  if (std::exchange(led_, true)) return false;
  ++leads_;
  return true;
}

void LeaderFollower::give_up_lead() {
  run::MutexLock lock(mutex_);
  led_ = false;
  changed_.wake_all();
}

Duration LeaderFollower::time_until(Instant until) const {
  return std::min(run::Deadline(until).remaining(options_.clock), options_.longest_sleep);
}

Duration LeaderFollower::follow(Instant until, const Condition& ready) {
  const Duration time = time_until(until);
  bool woken = true;
  run::MutexLock lock(mutex_);
  followers_.fetch_add(1, std::memory_order_seq_cst);
  if (led_ && !ready()) woken = changed_.wait_for(mutex_, time);
  followers_.fetch_sub(1, std::memory_order_seq_cst);
  return woken ? Duration(0) : time;
}

Duration LeaderFollower::sleep_leading(Instant until, const Condition& ready) {
  const Duration time = time_until(until);
  bool woken = true;
  leader_sleeps_.store(true, std::memory_order_seq_cst);
  if (!ready() && time > Duration(0)) woken = doze(leader_, time);
  leader_sleeps_.store(false, std::memory_order_seq_cst);
  return woken ? Duration(0) : time;
}

// Looking takes no lock of a backend: nobody is kept from posting meanwhile.
bool LeaderFollower::doze(Sleeper& sleeper, Duration time) {
  const Instant begin = options_.clock.now();
  const bool looks_pay = !options_.looks_pay || options_.looks_pay();
  const auto is_called = [&] { return options_.poller.wait_beside(*sleeper.waker, Duration(0)); };
  const bool was_called = looks_pay ? sleeper.spinning.look(options_.clock, is_called)
                                    : sleeper.yielding.yield_once(options_.clock, is_called);
  const bool woken = was_called || options_.poller.wait_beside(*sleeper.waker, time);
  sleeper.spinning.learn(options_.clock.now() - begin);
  sleeper.waker->clear();  // here, not before: one that came before the sleep ends it at once
  return woken;
}

void LeaderFollower::wait(const Wait& wait, const Condition& ready,
                          const std::function<bool()>& progress) {
  if (ready()) return;
  if (wait.timeout <= Duration(0)) {  // who polls makes progress too, unless somebody is at it
    const Lead lead(*this);
    if (lead) (void)progress();
    return;
  }
  const Instant until = options_.clock.now() + wait.timeout;
  Duration slept{0};
  const auto has_time = [&] {
    if (wait.counts_sleep && slept >= wait.timeout) return false;
    // Reading a clock right after many stores waits for them: not where it decides nothing.
    return until == Instant::never() || options_.clock.now() < until;
  };
  while (!ready() && has_time()) {
    const Lead lead(*this);
    if (!lead) {
      slept += follow(until, ready);
      continue;
    }
    while (!ready() && has_time()) {
      if (!progress() && !ready()) slept += sleep_leading(until, ready);
    }
  }
}

// Leads without leader_sleeps_: what has come about is nothing to make progress with.
void LeaderFollower::sleep_until_work(Duration timeout) {
  const Instant until = options_.clock.now() + timeout;
  const auto never = [] { return false; };
  const Lead lead(*this);
  if (!lead) return (void)follow(until, never);
  (void)doze(leader_, time_until(until));
}

// ---- in the background

void LeaderFollower::note_progress() noexcept {
  if (!has_background_.load(std::memory_order_relaxed)) return;  // nobody to stand back
  progress_at_.store(options_.clock.now().nanoseconds, std::memory_order_relaxed);
}

// A lead that was there before is slept through to its end; one that is new may end soon, and
// waking somebody for each would cost what standing back saves.
bool LeaderFollower::stand_back(Duration timeout) {
  {
    run::MutexLock lock(mutex_);
    if (led_ && std::exchange(known_lead_, leads_) == leads_) {
      (void)changed_.wait_for(mutex_, std::min(timeout, options_.longest_sleep));
      return true;
    }
    const Instant recent = options_.clock.now() + -kRecently;
    if (!led_ && progress_at_.load(std::memory_order_relaxed) < recent.nanoseconds) return false;
  }
  nap();
  return true;
}

void LeaderFollower::nap() {
  run::MutexLock lock(mutex_);
  (void)woken_.wait_for(mutex_, kNap);
}

void LeaderFollower::serve(Duration timeout, const std::function<Turn()>& progress) {
  has_background_.store(true, std::memory_order_relaxed);
  if (stand_back(timeout)) return;
  const Turn turn = progress();
  if (turn == Turn::others_are_at_it) nap();
  if (turn == Turn::idle) (void)doze(background_, time_until(options_.clock.now() + timeout));
}

}  // namespace towpath::agent
