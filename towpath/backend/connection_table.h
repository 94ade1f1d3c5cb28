// ConnectionTable: the connections of one backend, and the rule that a loss is reported once.
//
// A backend marks a connection lost wherever it learns of it; nobody is notified there. Its
// progress() calls report_losses(), which notifies the agent and lets the backend end what was on
// its way.
//
//   up --mark_lost()--> marked --report_losses()--> reported     cut(): at once, to nobody
//
// Invariant: the first reason stays; a lost connection never comes back.
// Thread: loop. The agent may drop connections and make new ones while it is notified of a loss.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include <towpath/backend/backend.h>

namespace towpath::backend {

class ConnectionTable;

/// A connection that stands in a table from its first moment to its last.
class TrackedConnection : public Connection {
 public:
  /// The table outlives it.
  TrackedConnection(ConnectionTable& table, AgentIdentity peer);
  TrackedConnection(const TrackedConnection&) = delete;
  TrackedConnection& operator=(const TrackedConnection&) = delete;
  ~TrackedConnection() override;

  /// From 1 on, never given twice in a table: for a poller's tag, a callback's argument.
  std::uint64_t id() const noexcept { return id_; }
  const AgentIdentity& peer() const noexcept { return peer_; }
  /// ok, or why it is lost.
  const Status& state() const noexcept { return why_lost_; }
  bool is_lost() const noexcept { return !why_lost_.ok(); }

 private:
  friend class ConnectionTable;

  ConnectionTable& table_;
  const AgentIdentity peer_;
  const std::uint64_t id_;
  Status why_lost_;
};

class ConnectionTable {
 public:
  /// `events` outlives it.
  explicit ConnectionTable(Events& events) : events_(events) {}
  ConnectionTable(const ConnectionTable&) = delete;
  ConnectionTable& operator=(const ConnectionTable&) = delete;

  /// Null when it is gone.
  TrackedConnection* find(std::uint64_t id) const;

  /// `why` is a failure.
  void mark_lost(TrackedConnection& connection, Status why);
  /// Asks `why_lost(connection) -> Status` of each that is up, in the order of their making, and
  /// marks those for which it fails.
  template <typename WhyLost>
  void mark_if(WhyLost&& why_lost) {
    for (const auto& [id, connection] : connections_) {
      if (connection->is_lost()) continue;
      if (Status why = why_lost(*connection); !why.ok()) mark_lost(*connection, std::move(why));
    }
  }
  /// Lost by the agent's own will (Backend::teardown): it is not reported.
  void cut(TrackedConnection& connection, Status why);

  /// Reports what is marked, in that order, each followed by `end(connection, why)`, in which the
  /// backend completes the operations that have nothing else to wait for.
  template <typename End>
  void report_losses(End&& end) {
    while (!marked_.empty()) {
      const std::uint64_t id = marked_.front();
      marked_.pop_front();
      TrackedConnection* const connection = find(id);
      if (connection == nullptr) continue;
      const Status why = connection->state();
      events_.on_peer_lost(*connection, why);
      if (find(id) != nullptr) end(*connection, why);
    }
  }

 private:
  friend class TrackedConnection;

  Events& events_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, TrackedConnection*> connections_;
  std::deque<std::uint64_t> marked_;
};

}  // namespace towpath::backend
