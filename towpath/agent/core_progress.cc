// AgentCore: notifications, progress, waiting.
#include <towpath/agent/core.h>
#include <towpath/core/text.h>

namespace towpath::agent {

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
  waiting_->wait(
      {timeout}, [&] { return inbox_waiting_.load(std::memory_order_seq_cst); },
      [this] { return progress_all(); });
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
  waiting_->note_progress();
  return progress_all();
}

bool AgentCore::progress_all() {
  const bool more = progress_slots();
  bury_if_free();
  return more;
}

bool AgentCore::progress_slots() {
  Slot* busy = nullptr;
  bool more = progress_free_slots(busy);
  // The poller tells of it until that thread is through: rather wait than ask again and again, and
  // take the processor from it.
  if (busy != nullptr && !more) {
    run::MutexLock lock(busy->mutex);
    more = busy->progress();
  }
  tell_of_progress();
  return more;
}

void AgentCore::serve(Duration timeout) {
  waiting_->serve(timeout, [this] {
    Slot* busy = nullptr;
    const bool more = progress_free_slots(busy);
    tell_of_progress();
    bury_if_free();
    return more              ? WaitingRoom::Turn::more
           : busy != nullptr ? WaitingRoom::Turn::others_are_at_it
                             : WaitingRoom::Turn::idle;
  });
}

// `busy`: one that another thread is at.
bool AgentCore::progress_free_slots(Slot*& busy) {
  waker_->clear();
  bool more = false;
  for (const auto& slot : slots()) {
    if (slot->mutex.try_lock()) {
      more |= slot->progress();
      slot->mutex.unlock();
    } else {
      busy = slot.get();
    }
  }
  return more;
}

void AgentCore::tell_of_progress() {
  send_deferred();
  rearm_if_fired();
  waiting_->tell();
}

// Who holds control_ may wait for this very thread to make progress: then a later call does it.
void AgentCore::bury_if_free() {
  if (!any_retired_.load(std::memory_order_relaxed) || !control_.try_lock()) return;
  bury_retired();
  control_.unlock();
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

// Where nothing is under way, a message may come.
bool AgentCore::looks_pay() const {
  bool pay = true;
  for (const auto& slot : slots()) {
    if (!slot->is_moving()) continue;
    if (slot->backend->capabilities().looks_pay) return true;
    pay = false;
  }
  return pay;
}

void AgentCore::note_ended() { waiting_->note_change(); }

// Small transfers over mapped memory end in post(), so who only posts them and waits would never
// hear that the peer has died, nor of messages. Counts that threads lose delay it by as much.
void AgentCore::glance() {
  constexpr std::uint32_t kEvery = 256;  // some 300 ns for all of them
  const std::uint32_t count = glances_.load(std::memory_order_relaxed) + 1;
  glances_.store(count, std::memory_order_relaxed);
  if (count % kEvery == 0) progress_all();
}

Outcome AgentCore::wait(TransferCore& transfer, Duration timeout) {
  const auto has_ended = [&] {
    return transfer.state.load(std::memory_order_seq_cst) == TransferState::ended;
  };
  // A handle may outlive the agent: then nothing moves any more, and its clock may be gone.
  if (!closed_.load()) {
    if (has_ended())
      glance();
    else
      waiting_->wait({timeout}, has_ended, [this] { return progress_all(); });
  }
  return has_ended() ? transfer.outcome.load(std::memory_order_acquire) : Outcome::none;
}

void AgentCore::wait_for_work(Duration timeout) { waiting_->sleep_until_work(timeout); }

void AgentCore::wake() {
  waker_->wake();
  waiting_->wake();
}

}  // namespace towpath::agent
