#include <algorithm>

#include <towpath/agent/waiting_room.h>
#include <towpath/run/deadline.h>

namespace towpath::agent {

Result<std::unique_ptr<WaitingRoom>> WaitingRoom::open(const run::Poller& poller,
                                                       const Clock& clock, Duration longest_sleep) {
  std::unique_ptr<WaitingRoom> room(new WaitingRoom(poller, clock, longest_sleep));
  TOWPATH_TRY(room->leader_waker_, run::Waker::open());
  return room;
}

void WaitingRoom::note_change() noexcept { has_changed_.store(true, std::memory_order_seq_cst); }

// Sequentially consistent throughout: a waiter counts itself (or says that it sleeps) and then
// looks at what it waits for; we changed that first and look at the count now, so one of the two
// sees the other.
void WaitingRoom::tell() noexcept {
  if (!has_changed_.load(std::memory_order_relaxed)) return;
  if (!has_changed_.exchange(false, std::memory_order_seq_cst)) return;
  if (followers_.load(std::memory_order_seq_cst) > 0) {
    run::MutexLock lock(mutex_);
    changed_.wake_all();
  }
  if (leader_sleeps_.load(std::memory_order_seq_cst)) leader_waker_->wake();
}

void WaitingRoom::wake() noexcept {
  leader_waker_->wake();
  run::MutexLock lock(mutex_);
  changed_.wake_all();
}

bool WaitingRoom::take_lead() {
  run::MutexLock lock(mutex_);
  return !std::exchange(led_, true);
}

void WaitingRoom::give_up_lead() {
  run::MutexLock lock(mutex_);
  led_ = false;
  changed_.wake_all();
}

Duration WaitingRoom::time_until(Instant until) const {
  return std::min(run::Deadline(until).remaining(clock_), longest_sleep_);
}

Duration WaitingRoom::follow(Instant until, const Condition& ready) {
  const Duration time = time_until(until);
  bool woken = true;
  run::MutexLock lock(mutex_);
  followers_.fetch_add(1, std::memory_order_seq_cst);
  if (led_ && !ready()) woken = changed_.wait_for(mutex_, time);
  followers_.fetch_sub(1, std::memory_order_seq_cst);
  return woken ? Duration(0) : time;
}

Duration WaitingRoom::sleep_leading(Instant until, const Condition& ready) {
  const Duration time = time_until(until);
  bool woken = true;
  leader_sleeps_.store(true, std::memory_order_seq_cst);
  if (!ready() && time > Duration(0)) woken = doze(time);
  leader_sleeps_.store(false, std::memory_order_seq_cst);
  return woken ? Duration(0) : time;
}

bool WaitingRoom::doze(Duration time) {
  const bool woken = poller_.wait_beside(*leader_waker_, time);
  leader_waker_->clear();  // here, not before: one that came before the sleep ends it at once
  return woken;
}

void WaitingRoom::wait(const Wait& wait, const Condition& ready,
                       const std::function<bool()>& progress) {
  if (ready()) return;
  const Instant until = clock_.now() + wait.timeout;
  Duration slept{0};
  const auto has_time = [&] {
    if (wait.counts_sleep && slept >= wait.timeout) return false;
    // Reading a clock right after many stores waits for them: not where it decides nothing.
    return until == Instant::never() || clock_.now() < until;
  };
  while (!ready() && has_time()) {
    if (!take_lead()) {
      slept += follow(until, ready);
      continue;
    }
    while (!ready() && has_time()) {
      if (!progress() && !ready()) slept += sleep_leading(until, ready);
    }
    give_up_lead();
  }
}

// Leads without leader_sleeps_: what has come about is nothing to make progress with.
void WaitingRoom::sleep_until_work(Duration timeout) {
  const Instant until = clock_.now() + timeout;
  const auto never = [] { return false; };
  if (!take_lead()) return (void)follow(until, never);
  (void)doze(time_until(until));
  give_up_lead();
}

}  // namespace towpath::agent
