// BackendInstance: notifications, from the queue of a peer to the inbox of the other agent.
#include <algorithm>
#include <new>
#include <utility>

#include <towpath/agent/backend_instance.h>
#include <towpath/core/format.h>

namespace towpath::agent {

// Sends what room was kept for, or gives the room back, also when memory runs out.
void BackendInstance::notify_of(TransferCore& transfer, bool is_done) {
  const PeerPtr& peer = transfer.remote->peer;
  const std::size_t reserved_bytes = transfer.notification->size();
  const std::size_t notifier = peer->notification_instance.load(std::memory_order_relaxed);
  if (notifier != index) {  // with a copy: the transfer may be posted again meanwhile
    owner_.defer_notification(
        notifier, {peer, reserved_bytes, is_done ? transfer.notification : std::nullopt});
    return;
  }
  struct Room {
    std::optional<SendWindow>& outbox;
    std::size_t bytes;
    bool is_settled = false;
    ~Room() {
      if (!is_settled && outbox) outbox->release(bytes);
    }
  } room{peer->paths[index].outbox, reserved_bytes};
  take_deferred();
  settle_reserved(*peer, reserved_bytes, is_done ? &*transfer.notification : nullptr);
  room.is_settled = true;
}

Status BackendInstance::check_message(Peer& peer, std::size_t message_bytes) {
  TOWPATH_TRY(check_path(peer));
  if (!peer.paths[index].outbox)
    return error(Code::peer_lost, cat("the way to ", to_string(peer.identity), " was closed"));
  if (message_bytes > kMaxMessageBytes) {
    return error(
        Code::invalid_argument,
        cat("a notification of ", message_bytes, " bytes; one has up to ", kMaxMessageBytes),
        "send a short message and put the rest into memory");
  }
  return {};
}

Status BackendInstance::enqueue(Peer& peer, ConstByteSpan message) {
  take_deferred();  // they were first
  Status taken = check_message(peer, message.size());
  if (taken.ok() && !send_at_once(peer, message)) {
    flush_later(peer);  // first: what throws has taken nothing
    taken = peer.paths[index].outbox->push(message);
  }
  note_message(peer, taken.ok() ? Direction::sent : Direction::refused, message.size());
  return taken;
}

/// Whether it has left, as almost all do. Why not, is asked again when it waits: under the same
/// number, since a backend may have taken it before it failed.
bool BackendInstance::send_at_once(Peer& peer, ConstByteSpan message) {
  PeerPath& path = peer.paths[index];
  if (!path.outbox->encode_at_once(message, at_once_)) return false;
  try {
    if (!backend->notify(*path.connection, at_once_).ok()) return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
  path.outbox->sent_at_once();
  return true;
}

void BackendInstance::note_message(const Peer& peer, Direction direction, std::size_t bytes) {
  if (peer.meter != nullptr) peer.meter->notified(direction, bytes);
}

Status BackendInstance::reserve(Peer& peer, std::size_t message_bytes) {
  TOWPATH_TRY(check_message(peer, message_bytes));
  return peer.paths[index].outbox->reserve(message_bytes);
}

void BackendInstance::settle_reserved(Peer& peer, std::size_t reserved_bytes,
                                      const Bytes* message) {
  PeerPath& path = peer.paths[index];
  if (!path.outbox) {  // lost since, and the room with it
    if (message != nullptr) {
      log_.warning("notification of a transfer not sent",
                   {{"peer", to_string(peer.identity)}, {"why", path.refusal.to_string()}});
    }
  } else if (message != nullptr) {
    flush_later(peer);  // first: what throws has sent nothing, and the room is kept
    path.outbox->push_reserved(*message);
    note_message(peer, Direction::sent, message->size());
  } else {
    path.outbox->release(reserved_bytes);
  }
}

void BackendInstance::defer(DeferredNotification deferred) {
  run::MutexLock lock(deferred_mutex_);
  deferred_.push_back(std::move(deferred));
  any_deferred_.store(true, std::memory_order_release);  // pairs with has_deferred()
}

// Each goes when it is settled: what throws leaves it, and those behind it, for the next time.
void BackendInstance::take_deferred() {
  if (!has_deferred()) return;
  while (const DeferredNotification* const one = first_deferred()) {
    settle_reserved(*one->peer, one->reserved_bytes, one->message ? &*one->message : nullptr);
    run::MutexLock lock(deferred_mutex_);
    deferred_.pop_front();
  }
}

/// It stays where it is while others are deferred. Null: there is none any more.
const DeferredNotification* BackendInstance::first_deferred() {
  run::MutexLock lock(deferred_mutex_);
  if (!deferred_.empty()) return &deferred_.front();
  any_deferred_.store(false, std::memory_order_relaxed);  // under the mutex of defer()
  return nullptr;
}

// A peer stays in the list until nothing waits for it: what throws loses none.
void BackendInstance::flush_outboxes() {
  // Only what may be repeated has a time.
  const bool is_lossy = backend->capabilities().notifications == backend::Notifications::lossy;
  const Instant now = is_lossy ? clock_.now() : Instant();
  Instant next_repeat = Instant::never();
  for (std::size_t i = 0; i < waiting_outboxes_.size();) {
    const PeerPtr peer = waiting_outboxes_[i];
    if (flush(*peer, now, next_repeat)) {
      ++i;
      continue;
    }
    peer->paths[index].outbox_waits = false;
    std::swap(waiting_outboxes_[i], waiting_outboxes_.back());
    waiting_outboxes_.pop_back();
  }
  next_repeat_ = next_repeat;
}

void BackendInstance::flush_later(Peer& peer) {
  if (peer.paths[index].outbox_waits) return;
  PeerPtr known = peer_of(peer.identity);
  if (known.get() != &peer) return;  // it is retired, and was met again as another
  waiting_outboxes_.push_back(std::move(known));
  peer.paths[index].outbox_waits = true;
}

std::size_t BackendInstance::waiting_pieces() const {
  std::size_t pieces = 0;
  for (const PeerPtr& peer : waiting_outboxes_) {
    const auto& outbox = peer->paths[index].outbox;
    if (!peer->is_self && outbox) pieces += outbox->pieces();
  }
  return pieces;
}

/// Whether something still waits.
bool BackendInstance::flush(Peer& peer, Instant now, Instant& next_repeat) {
  PeerPath& path = peer.paths[index];
  if (!path.outbox || path.outbox->empty()) return false;
  if (!check_path(peer).ok()) return peer.is_self;  // until the way is made anew
  path.outbox->repeat_overdue(now, repeat_after_);
  bool is_full = false;
  while (const Bytes* message = path.outbox->next()) {
    const Status sent = backend->notify(*path.connection, *message);
    if (path.lost) return peer.is_self;  // on_peer_lost reported it inside notify()
    // Full: the next progress() tries again. Lost: on_peer_lost tells, now or soon.
    is_full = sent.code() == Code::exhausted;
    if (!sent.ok()) break;
    path.outbox->sent(now);
  }
  const Instant repeat = path.outbox->next_repeat(repeat_after_);
  if (repeat == Instant::never()) return is_full;
  next_repeat = std::min(next_repeat, repeat);
  owner_.note_deadline(repeat);
  return true;
}

// Without memory it is as if the inbox were full: the backend offers it again.
bool BackendInstance::on_notification(const AgentIdentity& from, ConstByteSpan message) {
  try {
    return hear(from, message);
  } catch (const std::bad_alloc&) {
    return come_again_soon();
  }
}

/// And not when somebody empties the inbox.
bool BackendInstance::come_again_soon() {
  owner_.note_deadline(clock_.now());
  return false;
}

bool BackendInstance::hear(const AgentIdentity& from, ConstByteSpan message) {
  const auto envelope = decode_envelope(message);
  if (!envelope.ok()) {
    log_.warning("notification dropped",
                 {{"from", to_string(from)}, {"why", std::string(envelope.status().message())}});
    return true;
  }
  return receive(from, *envelope);
}

bool BackendInstance::receive(const AgentIdentity& from, const Envelope& envelope) {
  if (envelope.kind == Envelope::Kind::acknowledgement) {
    const PeerPtr peer = peer_of(from);
    if (peer && peer->paths[index].outbox) peer->paths[index].outbox->acknowledged(envelope);
    return true;
  }
  const bool lossy = backend->capabilities().notifications == backend::Notifications::lossy;
  ReceiveWindow& window = received_.of(from);
  ReceiveWindow::Verdict verdict = window.judge(envelope);
  if (verdict == ReceiveWindow::Verdict::too_early && !lossy) {
    log_.error("notifications were lost on a reliable backend",
               {{"from", to_string(from)},
                {"backend", name},
                {"lost", cat(envelope.number - window.last() - 1)}});
    window.skip_to(envelope.number);
    verdict = ReceiveWindow::Verdict::deliver;
  }
  if (verdict == ReceiveWindow::Verdict::deliver) {
    if (envelope.kind == Envelope::Kind::piece)
      collect(from, window, envelope.payload);
    else if (!finish(from, window, envelope.payload))
      return false;
    window.delivered();
  }
  if (lossy) to_acknowledge_.push_back(from);
  return true;
}

void BackendInstance::collect(const AgentIdentity& from, ReceiveWindow& window,
                              ConstByteSpan piece) {
  const bool may_begin = window.is_collecting() || received_.may_collect(from);
  if (may_begin && window.collect(piece)) return;
  window.refuse_message();
}

/// False: the inbox is full, and the piece comes again.
bool BackendInstance::finish(const AgentIdentity& from, ReceiveWindow& window,
                             ConstByteSpan last_piece) {
  const std::optional<ConstByteSpan> message = window.finish(last_piece);
  if (!message) {
    log_.error("a notification was dropped: it is too long, or too many senders sent long ones",
               {{"from", to_string(from)}, {"most", cat(kMaxMessageBytes)}});
    return true;
  }
  const std::size_t bytes = message->size();
  bool was_delivered = false;
  try {
    telemetry::AgentMeter* const agent = owner_.meter();
    telemetry::PeerMeter* const meter = agent != nullptr ? &agent->peer(from.name) : nullptr;
    was_delivered = owner_.deliver(from, *message);
    if (was_delivered && meter != nullptr) meter->notified(Direction::received, bytes);
  } catch (const std::bad_alloc&) {
    was_delivered = come_again_soon();
  }
  window.settle(was_delivered, last_piece.size());
  return was_delivered;
}

void BackendInstance::acknowledge() {
  std::vector<AgentIdentity> senders;
  senders.swap(to_acknowledge_);
  std::ranges::sort(senders);
  const auto repeated = std::ranges::unique(senders);
  senders.erase(repeated.begin(), repeated.end());
  for (const AgentIdentity& sender : senders) {
    const PeerPtr peer = peer_of(sender);
    if (!peer || peer->paths[index].lost || !peer->paths[index].connection) continue;
    // Lost acknowledgements are made up for by the next one: the sender repeats.
    const ReceiveWindow& window = received_.of(sender);
    (void)backend->notify(
        *peer->paths[index].connection,
        encode({Envelope::Kind::acknowledgement, window.stream(), window.last(), {}}));
  }
}

}  // namespace towpath::agent
