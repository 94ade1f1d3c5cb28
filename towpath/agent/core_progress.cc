// AgentCore: notifications, progress, waiting.
#include <algorithm>

#include <towpath/agent/core.h>
#include <towpath/core/text.h>

namespace towpath::agent {
namespace {

// However long the deadline: look at the clock again, which a test may have advanced meanwhile.
constexpr Duration kLongestSleep = std::chrono::milliseconds(50);

}  // namespace

// ---- notifications ----

Status AgentCore::notify(std::string_view name, ConstByteSpan message) {
  PeerPtr peer;
  {
    run::MutexLock lock(control_);
    TOWPATH_TRY(peer, find_peer(name));
  }
  TOWPATH_TRY(Slot * slot, notifier_of(*peer));
  return with_slot(*slot, [&]() TOWPATH_REQUIRES(slot->mutex) {
    Status queued = slot->enqueue(*peer, message);
    slot->settle();
    return queued;
  });
}

Result<Slot*> AgentCore::notifier_of(const Peer& peer) const {
  const std::size_t index = peer.notification_slot.load(std::memory_order_relaxed);
  if (index < kMaxSlots) return slots_[index].get();
  return error(
      Code::unsupported,
      cat("no backend in common with ", to_string(peer.identity), " carries notifications"),
      "leave the notification out, or add a backend that carries them on both sides");
}

bool AgentCore::deliver(const AgentIdentity& from, ConstByteSpan message) {
  {
    run::MutexLock lock(inbox_mutex_);
    const bool has_room = inbox_.size() < options_.inbox_messages &&
                          message.size() <= options_.inbox_bytes - inbox_bytes_;
    if (!has_room) {
      inbox_refused_.store(true, std::memory_order_release);
      return false;
    }
    inbox_.push_back({from, Bytes(message.begin(), message.end())});
    inbox_bytes_ += message.size();
  }
  inbox_waiting_.store(true, std::memory_order_seq_cst);  // pairs with wait_notifications()
  note_ended();
  return true;
}

std::vector<Notification> AgentCore::take_notifications() {
  // Whoever sleeps must make progress again: only that offers what was refused once more.
  if (inbox_refused_.exchange(false, std::memory_order_acq_rel)) waker_->wake();
  run::MutexLock lock(inbox_mutex_);
  inbox_waiting_.store(false, std::memory_order_relaxed);
  inbox_bytes_ = 0;
  return std::exchange(inbox_, {});
}

std::vector<Notification> AgentCore::wait_notifications(Duration timeout) {
  wait_until_ready({timeout}, [&] { return inbox_waiting_.load(std::memory_order_seq_cst); });
  return take_notifications();
}

void AgentCore::defer_notification(std::size_t slot, DeferredNotification deferred) {
  slots_[slot]->defer(std::move(deferred));
  waker_->wake();
}

// Notifications of transfers that moved their bytes over another backend than the one that
// notifies.
void AgentCore::send_deferred() {
  for (const auto& slot : slots()) {
    if (!slot->has_deferred()) continue;
    with_slot(*slot, [&]() TOWPATH_REQUIRES(slot->mutex) { slot->settle(); });
  }
}

// ---- progress ----

bool AgentCore::progress() {
  const bool more = progress_slots();
  // Who holds control_ may wait for this very thread to make progress: then a later call does it.
  if (any_retired_.load(std::memory_order_relaxed) && control_.try_lock()) {
    bury_retired();
    control_.unlock();
  }
  return more;
}

bool AgentCore::progress_slots() {
  waker_->clear();
  bool more = false;
  for (const auto& slot : slots()) {
    if (!slot->mutex.try_lock()) continue;  // another thread is at it
    more |= slot->progress();
    slot->mutex.unlock();
  }
  send_deferred();
  rearm_if_fired();
  wake_waiters();
  return more;
}

void AgentCore::note_deadline(Instant at) {
  if (!is_kernel_time_) return;
  // Relaxed: a stale value costs one needless lock, or is corrected under it.
  if (at.nanoseconds >= armed_at_.load(std::memory_order_relaxed)) return;
  run::MutexLock lock(timer_mutex_);
  if (at.nanoseconds >= armed_at_.load(std::memory_order_relaxed)) return;
  armed_at_.store(at.nanoseconds, std::memory_order_relaxed);
  timer_->arm(at);
}

void AgentCore::rearm_if_fired() {
  const Instant armed{armed_at_.load(std::memory_order_relaxed)};
  if (armed == Instant::never() || clock_.now() < armed) return;
  {
    run::MutexLock lock(timer_mutex_);
    timer_->clear();
    armed_at_.store(INT64_MAX, std::memory_order_relaxed);
  }
  for (const auto& slot : slots()) {
    run::MutexLock lock(slot->mutex);
    slot->renew_deadline();
  }
}

// ---- waiting ----

void AgentCore::note_ended() { ended_since_wake_.store(true, std::memory_order_seq_cst); }

// Called without locks after every call into a slot. Sequentially consistent throughout: a waiter
// counts itself (or says that it sleeps) and then looks at what it waits for; we changed that first
// and look at the count now, so one of the two sees the other.
void AgentCore::wake_waiters() {
  if (!ended_since_wake_.load(std::memory_order_relaxed)) return;
  if (!ended_since_wake_.exchange(false, std::memory_order_seq_cst)) return;
  if (followers_.load(std::memory_order_seq_cst) > 0) {
    run::MutexLock lock(wait_mutex_);
    wait_changed_.wake_all();
  }
  if (leader_sleeps_.load(std::memory_order_seq_cst)) waker_->wake();
}

bool AgentCore::take_lead() {
  run::MutexLock lock(wait_mutex_);
  return !std::exchange(led_, true);
}

void AgentCore::give_up_lead() {
  run::MutexLock lock(wait_mutex_);
  led_ = false;
  wait_changed_.wake_all();
}

Duration AgentCore::follow(Instant until, const std::function<bool()>& ready) {
  const Duration time = std::min(run::Deadline(until).remaining(clock_), kLongestSleep);
  bool woken = true;
  run::MutexLock lock(wait_mutex_);
  followers_.fetch_add(1, std::memory_order_seq_cst);
  if (led_ && !ready()) woken = wait_changed_.wait_for(wait_mutex_, time);
  followers_.fetch_sub(1, std::memory_order_seq_cst);
  return woken ? Duration(0) : time;
}

Duration AgentCore::sleep_leading(Instant until, const std::function<bool()>& ready) {
  const Duration time = std::min(run::Deadline(until).remaining(clock_), kLongestSleep);
  bool woken = true;
  leader_sleeps_.store(true, std::memory_order_seq_cst);
  if (!ready() && time > Duration(0)) woken = !poller_->wait(time).empty();
  leader_sleeps_.store(false, std::memory_order_seq_cst);
  return woken ? Duration(0) : time;
}

void AgentCore::wait_until_ready(const Wait& wait, const std::function<bool()>& ready) {
  if (ready()) return;
  const Instant until = clock_.now() + wait.timeout;
  Duration slept{0};
  const auto has_time = [&] {
    if (wait.is_control_plane && slept >= wait.timeout) return false;
    // Reading a clock right after many stores waits for them: not where it decides nothing.
    return until == Instant::never() || clock_.now() < until;
  };
  while (!ready() && has_time()) {
    if (!take_lead()) {
      slept += follow(until, ready);
      continue;
    }
    while (!ready() && has_time()) {
      const bool more = wait.is_control_plane ? progress_slots() : progress();
      if (!more && !ready()) slept += sleep_leading(until, ready);
    }
    give_up_lead();
  }
}

Outcome AgentCore::wait(TransferCore& transfer, Duration timeout) {
  const auto has_ended = [&] {
    return transfer.state.load(std::memory_order_seq_cst) == TransferState::ended;
  };
  // A handle may outlive the agent: then nothing moves any more, and its clock may be gone.
  if (!closed_.load()) wait_until_ready({timeout}, has_ended);
  return has_ended() ? transfer.outcome.load(std::memory_order_acquire) : Outcome::none;
}

void AgentCore::wait_for_work(Duration timeout) {
  const Instant until = clock_.now() + timeout;
  const auto never = [] { return false; };
  if (!take_lead()) return (void)follow(until, never);
  (void)sleep_leading(until, never);
  give_up_lead();
}

void AgentCore::wake() {
  waker_->wake();
  run::MutexLock lock(wait_mutex_);
  wait_changed_.wake_all();
}

}  // namespace towpath::agent
