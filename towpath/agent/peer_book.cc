// PeerBook: who is known, and how each is reached.
#include <algorithm>
#include <utility>

#include <towpath/agent/metadata_table.h>
#include <towpath/agent/peer_book.h>
#include <towpath/core/format.h>
#include <towpath/telemetry/agent_meter.h>

namespace towpath::agent {
namespace {

PeerPtr make_self(const AgentContext& context) {
  auto self = std::make_shared<Peer>();
  self->identity = context.self;
  self->is_self = true;
  if (telemetry::AgentMeter* const meter = context.meter())
    self->meter = &meter->peer(context.self.name);
  return self;
}

bool reaches_back(const BackendInstance& instance) {
  return std::ranges::any_of(instance.backend->capabilities().pairs,
                             &backend::SupportedPair::to_self);
}

/// All of them, so that broken metadata changes nothing.
Result<RemoteRegions> regions_of(const OpenedMetadata& opened) {
  RemoteRegions advertised;
  for (const AgentMetadata::Region& region : opened.metadata.regions) advertised.add(region);
  TableReader table(opened.table, opened.metadata.backends.size());
  constexpr std::size_t kToJudgeBy = 64;
  for (std::size_t rows = 0; !table.at_end(); ++rows) {
    // Else it grows ten times on the way, and each time into memory that the kernel has to give.
    if (rows == kToJudgeBy) advertised.reserve(table.rows_to_expect());
    TOWPATH_TRY(const AgentMetadata::Region* const row, table.next());
    advertised.add(*row);
  }
  return advertised;
}

/// A partial one may come before the full one of the same generation. One that is older than a full
/// one would bring back what the peer took back since. The last full one has news where there is a
/// new path.
bool is_outdated(const Peer& peer, const AgentMetadata& metadata) {
  if (metadata.partial) return metadata.generation < peer.full_generation;
  const bool was_loaded =
      metadata.generation == peer.full_generation && peer.reachable.load() == peer.full_reachable;
  return metadata.generation < peer.generation || was_loaded;
}

Status unknown(std::string_view name) {
  return error(Code::not_found, cat("no peer called '", printable(name), "' is known"),
               "load its metadata first");
}

}  // namespace

Status check_not_lost(const Peer& peer) {
  if (!peer.lost.load(std::memory_order_acquire)) return {};
  return error(Code::peer_lost, cat(to_string(peer.identity), " is lost"),
               "load its new metadata when it is back");
}

PeerBook::PeerBook(const AgentContext& context, const BackendSet& backends, ProgressEngine& engine)
    : context_(context), backends_(backends), engine_(engine), self_(make_self(context)) {}

Status PeerBook::open_own(BackendInstance& instance) {
  if (!reaches_back(instance)) return {};
  const Bytes connection_info = instance.backend->connection_info();
  return engine_.with(instance, [&]() TOWPATH_REQUIRES(instance.mutex) {
    instance.open_path(self_, connection_info);
    const PeerPath& path = self_->paths[instance.index];
    return path.connection ? Status() : path.refusal;
  });
}

// What it knows of the path goes with it.
void PeerBook::close_own(BackendInstance& instance) noexcept {
  run::MutexLock lock(instance.mutex);
  PeerPath& path = self_->paths[instance.index];
  path.outbox.reset();
  path.connection.reset();
  path.refusal = {};
}

void PeerBook::use_own(BackendInstance& instance) {
  if (reaches_back(instance)) use_path(*self_, instance);
}

Status PeerBook::open_path(const PeerPtr& peer, BackendInstance& instance,
                           ConstByteSpan connection_info) {
  engine_.with(instance, [&]() TOWPATH_REQUIRES(instance.mutex) {
    instance.open_path(peer, connection_info);
  });
  const PeerPath& path = peer->paths[instance.index];
  if (!path.connection) return path.refusal;
  use_path(*peer, instance);
  return {};
}

void PeerBook::use_path(Peer& peer, const BackendInstance& instance) {
  peer.reachable.fetch_or(instance_bit(instance.index));
  const bool notifies =
      instance.backend->capabilities().notifications != backend::Notifications::none;
  // The first one where the peer is in use; else the one that also bytes would take.
  const std::size_t notifier = peer.notification_instance.load(std::memory_order_relaxed);
  const bool is_in_use = peer.is_self || peer.generation != 0;
  const bool is_better =
      is_in_use ? notifier == kMaxInstances : backends_.is_sooner(instance, notifier);
  if (notifies && is_better) peer.notification_instance = instance.index;
}

Status PeerBook::check_identity(const AgentIdentity& identity) const {
  if (identity == context_.self)
    return error(Code::invalid_argument, "this is the agent's own metadata",
                 "an agent reaches its own memory under its own name without one");
  if (identity.name != context_.self.name) return {};
  return error(Code::invalid_argument,
               cat("another agent is called ", printable(identity.name), " too"),
               "give agents different names");
}

// By two names, too: there is one path to a peer over each backend.
Status PeerBook::check_backends(const AgentMetadata& metadata) const {
  InstanceMask named = 0;
  for (const std::size_t instance : instances_of(metadata)) {
    if (instance == kMaxInstances) continue;
    if ((named & instance_bit(instance)) != 0)
      return error(Code::corrupt, cat("metadata of ", to_string(metadata.identity), " names ",
                                      backends_.at(instance).name, " twice"));
    named |= instance_bit(instance);
  }
  return {};
}

Result<AgentIdentity> PeerBook::load(ConstByteSpan bytes) {
  TOWPATH_TRY(const OpenedMetadata opened, open_metadata(bytes));
  TOWPATH_TRY(RemoteRegions regions, regions_of(opened));
  const AgentMetadata& metadata = opened.metadata;
  std::vector<RecordPtr> gone;
  {
    run::MutexLock lock(mutex_);
    TOWPATH_TRY(context_.check_open());
    TOWPATH_TRY(check_identity(metadata.identity));
    TOWPATH_TRY(check_backends(metadata));
    const auto known = peers_.find(metadata.identity.name);
    PeerPtr peer = known != peers_.end() ? known->second : nullptr;
    const bool usable = peer && peer->identity == metadata.identity && !peer->lost.load();
    if (usable) open_new_paths(peer, metadata);
    if (usable && is_outdated(*peer, metadata)) return metadata.identity;
    if (!usable) {
      TOWPATH_TRY(PeerPtr fresh, meet(metadata));
      if (peer) {
        retire(peer, Outcome::peer_lost,
               error(Code::peer_lost, cat(to_string(peer->identity), " was replaced by ",
                                          to_string(metadata.identity))));
      }
      peers_[metadata.identity.name] = fresh;
      peer = std::move(fresh);
    }
    gone = update_regions(*peer, metadata, std::move(regions));
  }
  // Without the lock: bytes may have to come to rest first.
  for (const RecordPtr& record : gone) drop_import(record);
  return metadata.identity;
}

Result<PeerPtr> PeerBook::meet(const AgentMetadata& metadata) {
  auto peer = std::make_shared<Peer>();
  peer->identity = metadata.identity;
  if (telemetry::AgentMeter* const meter = context_.meter()) {
    meter->peer_met(metadata.identity.name, metadata.identity.incarnation);
    peer->meter = &meter->peer(metadata.identity.name);
  }
  std::string refusals;
  bool has_info = metadata.backends.empty();
  for (const AgentMetadata::Backend& there : metadata.backends) {
    const auto instance = backends_.find(there.name);
    if (!instance.ok()) {
      refusals.append(cat("; ", there.name, ": this agent has no such backend"));
      continue;
    }
    has_info = has_info || !there.connection_info.empty();
    if (there.connection_info.empty()) continue;
    if (const Status why = open_path(peer, **instance, there.connection_info); !why.ok())
      refusals.append(cat("; ", there.name, ": ", why.message()));
  }
  if (!has_info) {
    return error(Code::not_found,
                 cat(to_string(metadata.identity),
                     " is not known, and its partial metadata does not say how to reach it"),
                 "load metadata with connection info first");
  }
  if (peer->reachable.load() == 0) {
    return error(Code::unavailable,
                 cat("no backend in common with ", to_string(metadata.identity),
                     refusals.empty() ? "; its metadata names none" : refusals),
                 "create the same backend on both sides; `towpath doctor` says what works here");
  }
  return peer;
}

/// Over backends that one of both sides has made since they met. What was refused then stays so.
void PeerBook::open_new_paths(const PeerPtr& peer, const AgentMetadata& metadata) {
  for (const AgentMetadata::Backend& there : metadata.backends) {
    const auto found = backends_.find(there.name);
    if (!found.ok() || there.connection_info.empty()) continue;
    BackendInstance& instance = **found;
    if ((peer->reachable.load() & instance_bit(instance.index)) != 0) continue;
    const bool was_refused = engine_.with(instance, [&]() TOWPATH_REQUIRES(instance.mutex) {
      return !peer->paths[instance.index].refusal.ok();
    });
    if (was_refused) continue;
    if (const Status why = open_path(peer, instance, there.connection_info); !why.ok())
      context_.log.warning("a new backend does not reach a peer",
                           {{"peer", to_string(peer->identity)},
                            {"backend", instance.name},
                            {"why", why.to_string()}});
  }
}

Result<PeerPtr> PeerBook::find_locked(std::string_view name) const {
  if (name == context_.self.name) return self_;
  const auto found = peers_.find(name);
  if (found != peers_.end()) return found->second;
  return unknown(name);
}

Result<PeerPtr> PeerBook::find(std::string_view name) const {
  run::MutexLock lock(mutex_);
  return find_locked(name);
}

Status PeerBook::expect_departure(std::string_view name) {
  TOWPATH_TRY(const PeerPtr peer, find(name));
  peer->excused.store(true, std::memory_order_relaxed);
  return {};
}

Status PeerBook::forget(std::string_view name) {
  run::MutexLock lock(mutex_);
  const auto found = peers_.find(name);
  if (found == peers_.end()) return unknown(name);
  const PeerPtr peer = found->second;
  peers_.erase(found);
  retire(peer, Outcome::cancelled,
         error(Code::cancelled, cat(to_string(peer->identity), " was forgotten")));
  return {};
}

// Ends what moves to or from the peer; its connections go when that has come to rest.
void PeerBook::retire(const PeerPtr& peer, Outcome outcome, const Status& why) {
  peer->lost.store(true, std::memory_order_release);
  peer->regions.each_record([](MemoryRecord& record) { record.stale = true; });
  context_.note_memory_gone();
  for (const auto& instance : backends_.all()) {
    engine_.with(*instance, [&]() TOWPATH_REQUIRES(instance->mutex) {
      PeerPath& path = peer->paths[instance->index];
      if (!path.lost) path.refusal = why;
      path.lost = true;
      instance->stop_all(
          [&](const TransferCore& transfer) { return &transfer.peer() == peer.get(); }, outcome,
          why);
    });
  }
  engine_.reap_when_quiesced(peer);
}

PeerInfo PeerBook::info_of(const Peer& peer) const {
  PeerInfo info{.identity = peer.identity,
                .generation = peer.generation,
                .regions = peer.regions.size(),
                .backends = backends_.names(peer.reachable.load()),
                .waiting_notifications = 0,
                .lost = peer.lost.load(std::memory_order_acquire),
                .lost_why = {}};
  for (const auto& instance : backends_.all()) {
    run::MutexLock lock(instance->mutex);
    const PeerPath& path = peer.paths[instance->index];
    if (info.lost && path.lost && info.lost_why.ok()) info.lost_why = path.refusal;
    if (path.outbox) info.waiting_notifications += path.outbox->size();
  }
  return info;
}

Result<PeerInfo> PeerBook::info(std::string_view name) const {
  run::MutexLock lock(mutex_);
  TOWPATH_TRY(const PeerPtr found, find_locked(name));
  return info_of(*found);
}

std::vector<PeerInfo> PeerBook::all() const {
  run::MutexLock lock(mutex_);
  std::vector<PeerInfo> infos;
  for (const auto& [name, peer] : peers_) infos.push_back(info_of(*peer));
  return infos;
}

void PeerBook::close(InstanceMask idle) {
  engine_.close_retired(idle);
  run::MutexLock lock(mutex_);
  for (const auto& instance : backends_.all()) {
    if ((idle & instance_bit(instance->index)) == 0) continue;
    run::MutexLock instance_lock(instance->mutex);
    for (const auto& [name, peer] : peers_) instance->let_go_of(*peer);
    instance->let_go_of(*self_);
    // Of no peer's regions any more, and lists that outlive the agent may hold them.
    for (const RecordPtr& record : stuck_) record->memory.drop(instance->index);
  }
}

}  // namespace towpath::agent
