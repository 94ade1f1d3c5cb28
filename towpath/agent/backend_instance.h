// BackendInstance: one backend of an agent, its lock, and the transfers that are active on it.
//
// All calls on the backend but query() are made under `mutex`. What the backend reports during a
// call is noted, and what follows from it (cancelling, tearing down, sending notifications) is done
// by settle() when the call has returned, because a backend must not be called from inside its own
// event. Thread: any, under `mutex`, unless noted.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <towpath/agent/channel.h>
#include <towpath/agent/peer.h>
#include <towpath/agent/receive_windows.h>
#include <towpath/agent/transfer_core.h>
#include <towpath/backend/backend.h>
#include <towpath/run/mutex.h>
#include <towpath/telemetry/log.h>

namespace towpath::agent {

/// What becomes of the room that a transfer kept for its notification over another instance.
struct DeferredNotification {
  PeerPtr peer;
  std::size_t reserved_bytes = 0;
  std::optional<Bytes> message;  ///< none: it did not end as done, and the room is given back
};

/// Where instances deliver what their agent's user must learn. Called under an instance's mutex.
class InstanceOwner {
 public:
  virtual ~InstanceOwner() = default;
  /// False: the inbox is full.
  virtual bool deliver(const AgentIdentity& from, ConstByteSpan message) = 0;
  /// A transfer ended. Waiters must be woken, after the mutex was released.
  virtual void note_ended() = 0;
  /// Counts what happens; null: nobody does.
  virtual telemetry::AgentMeter* meter() const noexcept { return nullptr; }
  /// A transfer that is a trial of its way has come to its outcome.
  virtual void note_trial(const TransferCore& transfer) { (void)transfer; }
  /// A transfer or a repetition is due at `at`.
  virtual void note_deadline(Instant at) = 0;
  /// A transfer on this instance ended, and its notification travels over another one: `instance`.
  virtual void defer_notification(std::size_t instance, DeferredNotification deferred) = 0;
};

/// Senders that are no known peers and whose message numbers are remembered.
inline constexpr std::size_t kMaxUnauthenticated = 4096;

class BackendInstance final : public backend::Events {
 public:
  BackendInstance(std::string instance_name, std::size_t instance_index, InstanceOwner& owner,
                  const Clock& clock, telemetry::Log log, Duration repeat_after)
      : name(std::move(instance_name)),
        index(instance_index),
        owner_(owner),
        clock_(clock),
        log_(std::move(log)),
        repeat_after_(repeat_after),
        received_(kMaxUnauthenticated) {}

  const std::string name;
  const std::size_t index;
  run::Mutex mutex;
  // Set once, before the instance is used. Null after the agent's end, which handles may outlive.
  std::unique_ptr<backend::Backend> backend;
  Bytes connection_info;  ///< the backend's; empty: peers are not notified of it

  // ---- transfers ----
  void post(TransferCore& transfer) TOWPATH_REQUIRES(mutex);
  /// Fixes the outcome if it is open, and asks the backend to stop.
  void stop(TransferCore& transfer, Outcome outcome, Status why) TOWPATH_REQUIRES(mutex);
  /// Stops all active transfers that `matches`, and settles. Returns those that are active still.
  std::vector<std::shared_ptr<TransferCore>> stop_all(
      const std::function<bool(const TransferCore&)>& matches, Outcome outcome, const Status& why)
      TOWPATH_REQUIRES(mutex);
  bool any_active(const std::function<bool(const TransferCore&)>& matches) const
      TOWPATH_REQUIRES(mutex);
  /// Whether any is, or was a moment ago. Thread: any, without `mutex`.
  bool is_moving() const noexcept { return is_moving_.load(std::memory_order_relaxed); }

  // ---- peers ----
  void open_path(const PeerPtr& peer, ConstByteSpan info) TOWPATH_REQUIRES(mutex);
  /// Closes the path to a peer that is retired, and drops what was imported of it.
  void let_go_of(Peer& peer) TOWPATH_REQUIRES(mutex);
  /// Whether the peer is still there over this instance. The way to oneself, once lost, is made
  /// anew here, as no metadata could. Errors: peer_lost.
  Status check_path(Peer& peer) TOWPATH_REQUIRES(mutex);

  // ---- notifications ----
  /// Errors: peer_lost, invalid_argument (too long), exhausted (queue full).
  Status enqueue(Peer& peer, ConstByteSpan message) TOWPATH_REQUIRES(mutex);
  /// Keeps room for a notification that is sent when a transfer is done. Errors: as above.
  Status reserve(Peer& peer, std::size_t message_bytes) TOWPATH_REQUIRES(mutex);
  /// Ends a reserve(): sends the message, or gives the room back when it is null.
  void settle_reserved(Peer& peer, std::size_t reserved_bytes, const Bytes* message)
      TOWPATH_REQUIRES(mutex);
  /// Of notifications to others, those that were not handed over, or not acknowledged where that is
  /// needed.
  std::size_t waiting_pieces() const TOWPATH_REQUIRES(mutex);
  /// Ends a reserve() later, in the order of these calls. Thread: any; not under `mutex`, so that
  /// it may be called under another instance's. Bounded: each was reserved.
  void defer(DeferredNotification deferred);
  /// Acquire pairs with the release in defer().
  bool has_deferred() const noexcept { return any_deferred_.load(std::memory_order_acquire); }

  // ---- progress ----
  bool progress() TOWPATH_REQUIRES(mutex);
  /// Notifies the owner again when something is due.
  void renew_deadline() TOWPATH_REQUIRES(mutex);
  /// Does what the backend's events ask for. Called after every call on the backend.
  void settle() TOWPATH_REQUIRES(mutex) {
    if (has_deferred() || has_to_settle()) settle_all();
  }

  // backend::Events, called by the backend under `mutex`.
  void on_complete(backend::Operation& operation, const backend::Completion& completion) override
      TOWPATH_REQUIRES(mutex);
  bool on_notification(const AgentIdentity& from, ConstByteSpan message) override
      TOWPATH_REQUIRES(mutex);
  void on_peer_lost(backend::Connection& connection, const Status& why) override
      TOWPATH_REQUIRES(mutex);

 private:
  /// Made before it is needed.
  const Status no_memory_ =
      error(Code::exhausted, "no memory was left to end the transfer as it should have");

  bool has_to_settle() const TOWPATH_REQUIRES(mutex) {
    return !to_cancel_.empty() || !to_acknowledge_.empty() || !waiting_outboxes_.empty() ||
           !lost_.empty();
  }
  void settle_all() TOWPATH_REQUIRES(mutex);
  void close_path(Peer& peer) TOWPATH_REQUIRES(mutex);
  bool is_news(const Peer& peer) const TOWPATH_REQUIRES(mutex);
  void note_loss(const Peer& peer, const Status& why) TOWPATH_REQUIRES(mutex);
  void link(TransferCore& transfer) TOWPATH_REQUIRES(mutex);
  void unlink(TransferCore& transfer) TOWPATH_REQUIRES(mutex);
  void end(TransferCore& transfer) TOWPATH_REQUIRES(mutex);
  void notify_of(TransferCore& transfer, bool is_done) TOWPATH_REQUIRES(mutex);
  void take_deferred() TOWPATH_REQUIRES(mutex);
  const DeferredNotification* first_deferred() TOWPATH_REQUIRES(mutex);
  using Direction = telemetry::PeerMeter::Direction;
  static void note_message(const Peer& peer, Direction direction, std::size_t bytes);
  void collect(const AgentIdentity& from, ReceiveWindow& window, ConstByteSpan piece)
      TOWPATH_REQUIRES(mutex);
  bool finish(const AgentIdentity& from, ReceiveWindow& window, ConstByteSpan last_piece)
      TOWPATH_REQUIRES(mutex);
  Status check_message(Peer& peer, std::size_t message_bytes) TOWPATH_REQUIRES(mutex);
  bool send_at_once(Peer& peer, ConstByteSpan message) TOWPATH_REQUIRES(mutex);
  void reopen_own(Peer& self) TOWPATH_REQUIRES(mutex);
  void note_failures(TransferCore& transfer, const backend::Completion& completion)
      TOWPATH_REQUIRES(mutex);
  void expire(Instant now) TOWPATH_REQUIRES(mutex);
  void drain() TOWPATH_REQUIRES(mutex);
  void cut(Peer& peer) TOWPATH_REQUIRES(mutex);
  bool flush(Peer& peer, Instant now, Instant& next_repeat) TOWPATH_REQUIRES(mutex);
  /// settle() and progress() flush its outbox.
  void flush_later(Peer& peer) TOWPATH_REQUIRES(mutex);
  void flush_outboxes() TOWPATH_REQUIRES(mutex);
  Duration since_epoch(Instant at) TOWPATH_REQUIRES(mutex);
  void acknowledge() TOWPATH_REQUIRES(mutex);
  bool hear(const AgentIdentity& from, ConstByteSpan message) TOWPATH_REQUIRES(mutex);
  bool receive(const AgentIdentity& from, const Envelope& envelope) TOWPATH_REQUIRES(mutex);
  bool come_again_soon();
  PeerPtr peer_of(const AgentIdentity& identity) const TOWPATH_REQUIRES(mutex);

  InstanceOwner& owner_;
  const Clock& clock_;
  const telemetry::Log log_;
  const Duration repeat_after_;

  run::Mutex deferred_mutex_;  // a leaf
  std::deque<DeferredNotification> deferred_ TOWPATH_GUARDED_BY(deferred_mutex_);
  std::atomic<bool> any_deferred_{false};

  TransferCore* active_ = nullptr;
  std::atomic<bool> is_moving_{false};  // active_ has some; relaxed: only a hint
  Instant next_deadline_ = Instant::never();
  std::optional<Duration> epoch_;  // of the clock's instants
  Instant epoch_asked_at_;
  std::vector<std::shared_ptr<TransferCore>> to_cancel_;
  std::vector<PeerPtr> lost_;  // since the last settle()
  std::map<AgentIdentity, std::weak_ptr<Peer>> peers_;
  std::unordered_map<const backend::Connection*, std::weak_ptr<Peer>> by_connection_;
  ReceiveWindows received_;
  std::vector<AgentIdentity> to_acknowledge_;
  Bytes at_once_;  // a message on its way, encoded: the room is kept for the next
  std::vector<PeerPtr> waiting_outboxes_;   // those with something to send, to repeat or to refuse
  Instant next_repeat_ = Instant::never();  // of what waits for an acknowledgement
  std::uint32_t streams_ = 0;               // of notifications, that were begun
};

}  // namespace towpath::agent
