// BackendInstance: the ways to peers over one backend, from connecting to their loss.
#include <towpath/agent/backend_instance.h>
#include <towpath/core/format.h>

namespace towpath::agent {

void BackendInstance::open_path(const PeerPtr& peer, ConstByteSpan info) {
  PeerPath& path = peer->paths[index];
  auto connection = backend->connect(peer->identity, info);
  if (connection.ok()) {
    path.connection = *std::move(connection);
    peers_[peer->identity] = peer;
    by_connection_[path.connection.get()] = peer;
    received_.keep(peer->identity);
    const bool lossy = backend->capabilities().notifications == backend::Notifications::lossy;
    const std::uint64_t most = backend->capabilities().max_notification_bytes;
    const std::uint64_t piece = most > kEnvelopeBytes ? most - kEnvelopeBytes : 1;
    path.outbox.emplace(
        SendWindow::Mode{.lossy = lossy, .stream = ++streams_, .piece_bytes = piece},
        SendWindow::Limits{});
  } else {
    path.refusal = connection.status();
  }
  settle();
}

void BackendInstance::let_go_of(Peer& peer) {
  peer.regions.each_record([&](MemoryRecord& record) { record.memory.drop(index); });
  close_path(peer);
}

void BackendInstance::close_path(Peer& peer) {
  // The same incarnation may have been met again meanwhile, as another Peer.
  if (peer_of(peer.identity).get() == &peer) {
    received_.forget(peer.identity);  // first: what throws is tried again
    peers_.erase(peer.identity);
  }
  PeerPath& path = peer.paths[index];
  std::erase_if(waiting_outboxes_, [&](const PeerPtr& each) { return each.get() == &peer; });
  path.outbox_waits = false;
  path.outbox.reset();
  by_connection_.erase(path.connection.get());
  path.connection.reset();
}

Status BackendInstance::check_path(Peer& peer) {
  PeerPath& path = peer.paths[index];
  if (path.lost && peer.is_self) reopen_own(peer);
  if (!path.lost) return {};
  return error(Code::peer_lost, cat(to_string(peer.identity), " is lost"),
               peer.is_self ? "wait until its transfers to itself have ended"
                            : "load its new metadata when it is back")
      .because(path.refusal);
}

void BackendInstance::reopen_own(Peer& self) {
  const auto uses_it = [](const TransferCore& transfer) { return transfer.peer().is_self; };
  if (any_active(uses_it)) return;  // over the old connection
  auto connection = backend->connect(self.identity, backend->connection_info());
  PeerPath& path = self.paths[index];
  if (!connection.ok()) {
    path.refusal = connection.status();
    return;
  }
  by_connection_.erase(path.connection.get());
  path.connection = *std::move(connection);
  by_connection_[path.connection.get()] = peer_of(self.identity);
  path.refusal = {};
  path.lost = false;
}

PeerPtr BackendInstance::peer_of(const AgentIdentity& identity) const {
  const auto found = peers_.find(identity);
  return found == peers_.end() ? nullptr : found->second.lock();
}

/// Of an excused peer it is only where something was still moving.
bool BackendInstance::is_news(const Peer& peer) const {
  return !peer.excused.load(std::memory_order_relaxed) ||
         any_active([&](const TransferCore& transfer) { return &transfer.peer() == &peer; });
}

void BackendInstance::on_peer_lost(backend::Connection& connection, const Status& why) {
  const auto known = by_connection_.find(&connection);
  const PeerPtr peer = known == by_connection_.end() ? nullptr : known->second.lock();
  if (!peer) return;
  PeerPath& path = peer->paths[index];
  if (path.lost) return;
  path.lost = true;
  path.refusal = why;
  if (peer->is_self) {
    flush_later(*peer);  // settle() makes the way anew when something waits
  } else {
    lost_.push_back(peer);  // its outbox may be in use by the caller: settle() lets go of it
    peer->lost.store(true, std::memory_order_release);
  }
  note_loss(*peer, why);
  for (TransferCore* transfer = active_; transfer != nullptr; transfer = transfer->next) {
    if (&transfer->peer() == peer.get()) {
      stop(*transfer, Outcome::peer_lost,
           error(Code::peer_lost,
                 cat(to_string(peer->identity), " was lost during a transfer over ", name),
                 "load its new metadata when it is back")
               .because(why));
    }
  }
  owner_.note_ended();  // those who wait for this peer look again
}

void BackendInstance::note_loss(const Peer& peer, const Status& why) {
  const bool news = is_news(peer);
  log_.say(news ? telemetry::Level::warning : telemetry::Level::info,
           news ? "peer lost" : "peer gone",
           {{"peer", to_string(peer.identity)}, {"backend", name}, {"why", why.to_string()}});
  if (telemetry::AgentMeter* meter = news ? owner_.meter() : nullptr)
    meter->peer_lost(peer.identity.name, peer.identity.incarnation, why.code());
}

}  // namespace towpath::agent
