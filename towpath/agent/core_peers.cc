// AgentCore: cards and peers.
#include <algorithm>
#include <unordered_set>

#include <towpath/agent/card_table.h>
#include <towpath/agent/core.h>
#include <towpath/core/text.h>

namespace towpath::agent {

// Told again and again while nothing changes, to one peer after the other: a full one is kept.
Result<Bytes> AgentCore::card(const CardOptions& options) {
  run::MutexLock lock(control_);
  if (options.only != nullptr || !options.connection_info) return make_card(options);
  if (last_card_generation_ != card_generation_) {
    TOWPATH_TRY(last_card_, make_card(options));
    last_card_generation_ = card_generation_;
  }
  return last_card_;
}

Result<Bytes> AgentCore::make_card(const CardOptions& options) {
  const Card head = card_head(options);
  if (options.only == nullptr) {
    TOWPATH_TRY(const ConstByteSpan table, rows_.table());
    return encode(head, table);
  }
  TOWPATH_TRY(const std::vector<const MemoryRecord*> records, records_to_tell(*options.only));
  TOWPATH_TRY(const Bytes table, rows_.table_of(records));
  return encode(head, table);
}

// All but the regions.
Card AgentCore::card_head(const CardOptions& options) const {
  Card card{.identity = self_, .generation = card_generation_, .partial = options.only != nullptr};
  for (const auto& slot : slots()) {
    if (!rows_.tells_of(slot->index)) continue;
    card.backends.push_back(
        {slot->name, options.connection_info ? slot->connection_info : Bytes()});
  }
  return card;
}

Result<std::vector<const MemoryRecord*>> AgentCore::records_to_tell(const DescriptorList& only) {
  std::vector<const MemoryRecord*> told;
  std::unordered_set<const MemoryRecord*> added;
  for (std::uint64_t i = 0; i < only.size(); ++i) {
    const Descriptor what = only.at(i);
    const RecordPtr record = record_of(regions_.find(only.kind(), what));
    if (!record) {
      return error(Code::not_found,
                   cat("descriptor ", i, ": ", to_string(only.kind(), what), " is not registered"),
                   "register the region before telling peers about it");
    }
    if (rows_.tells_of(*record) && added.insert(record.get()).second) told.push_back(record.get());
  }
  return told;
}

namespace {

/// All of them, so that a broken card changes nothing.
Result<ToldRegions> regions_of(const OpenedCard& opened) {
  ToldRegions told;
  for (const Card::Region& region : opened.card.regions) told.add(region);
  TableReader table(opened.table, opened.card.backends.size());
  constexpr std::size_t kToJudgeBy = 64;
  for (std::size_t rows = 0; !table.at_end(); ++rows) {
    // Else it grows ten times on the way, and each time into memory that the kernel has to give.
    if (rows == kToJudgeBy) told.reserve(table.rows_to_expect());
    TOWPATH_TRY(const Card::Region* const row, table.next());
    told.add(*row);
  }
  return told;
}

}  // namespace

Result<AgentIdentity> AgentCore::load_card(ConstByteSpan bytes) {
  TOWPATH_TRY(const OpenedCard opened, open_card(bytes));
  TOWPATH_TRY(ToldRegions told, regions_of(opened));
  const Card& card = opened.card;
  run::MutexLock lock(control_);
  if (closed_.load()) return error(Code::not_ready, "the agent was shut down");
  if (card.identity == self_)
    return error(Code::invalid_argument, "this is the agent's own card",
                 "an agent reaches its own memory under its own name without one");
  if (card.identity.name == self_.name) {
    return error(Code::invalid_argument,
                 cat("another agent is called ", printable(self_.name), " too"),
                 "give agents different names");
  }
  const auto known = peers_.find(card.identity.name);
  PeerPtr peer = known != peers_.end() ? known->second : nullptr;
  const bool usable = peer && peer->identity == card.identity && !peer->lost.load();
  if (usable && card.generation <= peer->generation && !card.partial) return card.identity;
  if (!usable) {
    TOWPATH_TRY(PeerPtr fresh, new_peer(card));
    if (peer) {
      retire(peer, Outcome::peer_lost,
             error(Code::peer_lost,
                   cat(to_string(peer->identity), " was replaced by ", to_string(card.identity))));
    }
    peers_[card.identity.name] = fresh;
    peer = std::move(fresh);
  }
  update_regions(*peer, card, std::move(told));
  return peer->identity;
}

// As the choice for bytes: the lowest latency, then the order of creation.
bool AgentCore::tells_sooner(const Slot& slot, std::size_t than) const {
  if (than == kMaxSlots) return true;
  const Duration here = slot.backend->capabilities().cost.latency;
  const Duration there = slots()[than]->backend->capabilities().cost.latency;
  return here != there ? here < there : slot.index < than;
}

Result<PeerPtr> AgentCore::new_peer(const Card& card) {
  auto peer = std::make_shared<Peer>();
  peer->identity = card.identity;
  if (options_.meter != nullptr) {
    options_.meter->peer_met(card.identity.name, card.identity.incarnation);
    peer->meter = &options_.meter->peer(card.identity.name);
  }
  std::string refusals;
  bool has_info = card.backends.empty();
  for (const Card::Backend& way : card.backends) {
    auto slot = slot_named(way.name);
    if (!slot.ok()) {
      refusals.append(cat("; ", way.name, ": this agent has no such backend"));
      continue;
    }
    has_info = has_info || !way.connection_info.empty();
    if (way.connection_info.empty()) continue;
    const std::size_t index = (*slot)->index;
    with_slot(**slot, [&]() TOWPATH_REQUIRES((*slot)->mutex) {
      (*slot)->open_way(peer, way.connection_info);
    });
    if (!peer->ways[index].connection) {
      refusals.append(cat("; ", way.name, ": ", peer->ways[index].refusal.message()));
      continue;
    }
    peer->reachable.fetch_or(slot_bit(index));
    const auto notifies = (*slot)->backend->capabilities().notifications;
    if (notifies == backend::Notifications::none) continue;
    if (tells_sooner(**slot, peer->notification_slot)) peer->notification_slot = index;
  }
  if (!has_info) {
    return error(Code::not_found,
                 cat(to_string(card.identity),
                     " is not known, and its partial card "
                     "does not say how to reach it"),
                 "load a card with connection info first");
  }
  if (peer->reachable.load() == 0) {
    return error(Code::unavailable,
                 cat("no backend in common with ", to_string(card.identity),
                     refusals.empty() ? "; its card names none" : refusals),
                 "create the same backend on both sides; `towpath doctor` says what works here");
  }
  return peer;
}

Result<PeerPtr> AgentCore::find_peer(std::string_view name) const {
  if (name == self_.name) return self_peer_;
  const auto found = peers_.find(name);
  if (found != peers_.end()) return found->second;
  return error(Code::not_found, cat("no peer called '", printable(name), "' is known"),
               "load its card first");
}

Status AgentCore::excuse_peer(std::string_view name) {
  run::MutexLock lock(control_);
  TOWPATH_TRY(const PeerPtr peer, find_peer(name));
  peer->excused.store(true, std::memory_order_relaxed);
  return {};
}

Status AgentCore::forget_peer(std::string_view name) {
  run::MutexLock lock(control_);
  const auto found = peers_.find(name);
  if (found == peers_.end())
    return error(Code::not_found, cat("no peer called '", printable(name), "' is known"));
  const PeerPtr peer = found->second;
  peers_.erase(found);
  retire(peer, Outcome::cancelled,
         error(Code::cancelled, cat(to_string(peer->identity), " was forgotten")));
  return {};
}

// Ends what moves to or from the peer; its connections go when that is quiet.
void AgentCore::retire(const PeerPtr& peer, Outcome outcome, const Status& why) {
  peer->lost.store(true, std::memory_order_release);
  peer->regions.each_record([](MemoryRecord& record) { record.stale = true; });
  memory_generation_.fetch_add(1, std::memory_order_release);
  for (const auto& slot : slots()) {
    with_slot(*slot, [&]() TOWPATH_REQUIRES(slot->mutex) {
      Way& way = peer->ways[slot->index];
      if (!way.lost) way.refusal = why;
      way.lost = true;
      slot->stop_all([&](const TransferCore& transfer) { return &transfer.peer() == peer.get(); },
                     outcome, why);
    });
  }
  retired_.push_back(peer);
  bury_retired();
}

void AgentCore::bury_retired() {
  std::erase_if(retired_, [&](const PeerPtr& peer) {
    bool quiet = true;
    for (const auto& slot : slots()) {
      with_slot(*slot, [&]() TOWPATH_REQUIRES(slot->mutex) {
        const auto uses = [&](const TransferCore& transfer) {
          return &transfer.peer() == peer.get();
        };
        if (slot->any_active(uses)) {
          quiet = false;
          return;
        }
        peer->regions.each_record([&](MemoryRecord& record) { record.memory.drop(slot->index); });
        slot->close_way(*peer);
      });
    }
    return quiet;
  });
  any_retired_.store(!retired_.empty(), std::memory_order_relaxed);
}

PeerInfo AgentCore::info_of(const Peer& peer) {
  PeerInfo info{.identity = peer.identity,
                .generation = peer.generation,
                .regions = peer.regions.size(),
                .backends = slot_names(peer.reachable.load()),
                .waiting_notifications = 0,
                .lost = peer.lost.load(std::memory_order_acquire),
                .lost_why = {}};
  for (const auto& slot : slots()) {
    run::MutexLock lock(slot->mutex);
    const Way& way = peer.ways[slot->index];
    if (info.lost && way.lost && info.lost_why.ok()) info.lost_why = way.refusal;
    if (way.outbox) info.waiting_notifications += way.outbox->size();
  }
  return info;
}

Result<PeerInfo> AgentCore::peer(std::string_view name) {
  run::MutexLock lock(control_);
  TOWPATH_TRY(const PeerPtr found, find_peer(name));
  return info_of(*found);
}

std::vector<PeerInfo> AgentCore::peers() {
  run::MutexLock lock(control_);
  std::vector<PeerInfo> all;
  for (const auto& [name, peer] : peers_) all.push_back(info_of(*peer));
  return all;
}

Status AgentCore::check_peer(std::string_view name, const DescriptorList* list) {
  run::MutexLock lock(control_);
  TOWPATH_TRY(const PeerPtr found, find_peer(name));
  if (list == nullptr) return {};
  for (std::uint64_t i = 0; i < list->size(); ++i) {
    const bool covered = found->is_self ? regions_.find(list->kind(), list->at(i)) != nullptr
                                        : found->regions.covers(list->kind(), list->at(i));
    if (!covered) {
      return error(Code::not_found,
                   cat("descriptor ", i, ": ", to_string(list->kind(), list->at(i)),
                       " lies in no region of ", printable(name)));
    }
  }
  return {};
}

}  // namespace towpath::agent
