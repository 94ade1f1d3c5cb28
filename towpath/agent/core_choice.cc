// AgentCore: which backend moves a transfer, and why not the others.
#include <algorithm>

#include <towpath/agent/core.h>
#include <towpath/core/text.h>

namespace towpath::agent {

// Cheap, and without a lock: of what it looks at, only what backends have imported may change.
bool AgentCore::may_be_possible(const Choice& choice, const Slot& slot) {
  const SlotMask bit = slot_bit(slot.index);
  const Peer& peer = *choice.remote->peer;
  const SlotMask open = choice.remote->list.open_slots();
  const SlotMask know_all = choice.local->list.slots() & (open | choice.remote->list.slots());
  return (know_all & peer.reachable.load(std::memory_order_relaxed) & bit) != 0 &&
         slot.backend->capabilities().route(choice.local->list.kind(), choice.remote->list.kind(),
                                            choice.op, peer.is_self) != nullptr;
}

bool AgentCore::is_possible(const Choice& choice, const Slot& slot) {
  return (choice.remote->list.slots() & slot_bit(slot.index)) != 0 && may_be_possible(choice, slot);
}

/// Who is asked why not must have been asked.
void AgentCore::find_out(const Choice& choice, const SlotOrder& order) {
  for (const std::size_t index : order.all()) {
    Slot& slot = *slots()[index];
    if (may_be_possible(choice, slot) && !is_possible(choice, slot))
      (void)import_rest(*choice.remote, slot);
  }
}

/// Why a slot that is not possible is not.
Status AgentCore::refusal(const Choice& choice, Slot& slot) {
  const SlotMask bit = slot_bit(slot.index);
  const Peer& peer = *choice.remote->peer;
  const MemoryKind here = choice.local->list.kind();
  const MemoryKind there = choice.remote->list.kind();
  if (slot.backend->capabilities().route(here, there, choice.op, peer.is_self) == nullptr) {
    return error(Code::unsupported,
                 cat("it does not ", name_of(choice.op), " between ", name_of(here), " and ",
                     name_of(there), peer.is_self ? " of the agent itself" : " of a peer"));
  }
  if ((peer.reachable.load() & bit) == 0) {
    const Status why = with_slot(
        slot, [&]() TOWPATH_REQUIRES(slot.mutex) { return peer.ways[slot.index].refusal; });
    return error(Code::unavailable,
                 cat("it does not reach ", printable(peer.identity.name), ": ",
                     why.ok() ? std::string_view("the peer has no such backend") : why.message()));
  }
  if ((choice.local->list.slots() & bit) == 0)
    return error(Code::not_found, "not all local memory is registered with it");
  if ((choice.remote->list.open_slots() & bit) != 0)
    return error(Code::not_found, "a region is no longer in the peer's card");
  for (const RecordPtr& record : choice.remote->list.records()) {
    if (const Status* const why = record->refusal_of(slot.index))
      return error(Code::unavailable, std::string(why->message())).because(*why);
  }
  return error(Code::not_found, "not all remote memory is registered with it");
}

AgentCore::Offer AgentCore::offer_of(const Choice& choice, Slot& slot) {
  const backend::Cost cost = with_slot(slot, [&]() TOWPATH_REQUIRES(slot.mutex) {
    const Way& way = choice.remote->peer->ways[slot.index];
    return way.connection ? slot.backend->cost(*way.connection) : slot.backend->capabilities().cost;
  });
  Offer offer{.slot = slot.index, .cost = cost.latency, .is_measured = cost.measured};
  offer.cost += cost.per_segment * static_cast<std::int64_t>(choice.descriptors());
  if (cost.bytes_per_second > 0) {
    const double seconds = static_cast<double>(choice.bytes()) / cost.bytes_per_second;
    offer.cost += Duration(static_cast<std::int64_t>(seconds * 1e9));
  }
  const WayTimes::Known known = known_of(choice, slot);
  offer.wants_trial = known.wants_trial;
  offer.has_failed = known.has_failed;
  if (known.time) offer.cost = *known.time;
  offer.margin = known.spread;
  offer.is_measured |= known.time.has_value();
  return offer;
}

WayTimes::Known AgentCore::known_of(const Choice& choice, const Slot& slot) const {
  if (options_.way_trials == 0 || !choice.is_measured()) return {};
  return choice.remote->peer->times.known(choice.alike(), slot.index, choice.bytes(),
                                          options_.way_trials);
}

bool AgentCore::is_better(const Offer& offer, const Offer& than) {
  if (offer.wants_trial != than.wants_trial) return offer.wants_trial;
  if (offer.has_failed != than.has_failed) return than.has_failed;
  return offer.cost < than.cost;
}

std::string_view AgentCore::reason_of(const Offer& offer, const Offer& chosen) {
  if (offer.slot == chosen.slot)
    return offer.wants_trial   ? "is tried, so that its time is known"
           : offer.is_measured ? "was fastest"
                               : "costs least";
  if (offer.wants_trial) return "is tried next";
  if (offer.has_failed) return "failed when it was tried";
  if (chosen.wants_trial) return "has been tried";
  return offer.is_measured ? "was slower" : "costs more";
}

// Called under the slot's mutex.
void AgentCore::note_trial(const TransferCore& transfer) {
  const Outcome outcome = transfer.outcome.load(std::memory_order_relaxed);
  if (outcome != Outcome::done && outcome != Outcome::failed) return;  // tells nothing of the way
  const Choice choice{transfer.op, transfer.local.get(), transfer.remote.get(), &transfer.options};
  const TransferClass alike = choice.alike();
  WayTimes::Trial trial{.slot = transfer.slot->index, .bytes = choice.bytes()};
  if (outcome == Outcome::done) trial.took = transfer.transfer_time;
  WayTimes& times = transfer.peer().times;
  if (!times.note(alike, trial, options_.way_trials)) return;
  const WayTimes::Known known = known_of(choice, *transfer.slot);
  const auto fastest = times.fastest(alike);
  log_.info("a way to device memory was measured",
            {{"transfers", to_string(alike)},
             {"backend", transfer.slot->name},
             {"best", known.time ? cat(known.time->count() / 1000, " us") : std::string("failed")},
             {"fastest so far", fastest ? slots_[*fastest]->name : std::string("none")}});
}

Result<AgentCore::SlotOrder> AgentCore::order_of(const Choice& choice) const {
  SlotOrder order;
  for (const std::string& name : choice.options->backends) {
    TOWPATH_TRY(Slot * slot, slot_named(name));
    const auto before = order.all();
    if (std::ranges::find(before, slot->index) != before.end()) continue;
    order.index[order.count++] = slot->index;
  }
  order.asked = order.count > 0;
  for (std::size_t i = 0; !order.asked && i < slots().size(); ++i) order.index[order.count++] = i;
  return order;
}

// What the user asked for comes first, in that order; then what is still to be tried; then the
// lowest cost; then order of creation.
std::optional<AgentCore::Offer> AgentCore::best_offer(const Choice& choice,
                                                      const SlotOrder& order) {
  std::optional<Offer> best;
  for (const std::size_t index : order.all()) {
    Slot& slot = *slots()[index];
    if (!may_be_possible(choice, slot)) continue;
    if (order.asked) return Offer{.slot = index, .wants_trial = known_of(choice, slot).wants_trial};
    const Offer offer = offer_of(choice, slot);
    if (!best || is_better(offer, *best)) best = offer;
  }
  return best;
}

// The best one may have yet to import the peer's memory. Then it is asked to, once, and if it
// cannot, the best of the others is taken: the same as if all had been asked before. Of a list that
// does not stand any more nobody is asked; whoever makes the transfer finds out.
Result<AgentCore::Offer> AgentCore::choose(const Choice& choice) {
  TOWPATH_TRY(const SlotOrder order, order_of(choice));
  while (const std::optional<Offer> best = best_offer(choice, order)) {
    Slot& slot = *slots()[best->slot];
    if (is_possible(choice, slot) || !import_rest(*choice.remote, slot)) return *best;
  }
  return no_backend(choice, order);
}

Status AgentCore::no_backend(const Choice& choice, const SlotOrder& order) {
  run::MutexLock lock(control_);
  std::string reasons;
  for (const std::size_t index : order.all()) {
    Slot& slot = *slots()[index];
    reasons.append(cat("; ", slot.name, ": ", refusal(choice, slot).message()));
  }
  return error(Code::unsupported,
               cat("no backend can ", name_of(choice.op), " ", name_of(choice.local->list.kind()),
                   " <-> ", name_of(choice.remote->list.kind()), " with ",
                   printable(choice.remote->peer->identity.name),
                   order.count == 0 ? "; the agent has none" : reasons),
               "add a backend that can, before registering memory");
}

Result<Explanation> AgentCore::explain(TransferOp op, const PreparedList& local,
                                       const PreparedList& remote, const TransferOptions& options) {
  TOWPATH_TRY(check_sides(local, remote));
  const Choice choice{op, local.side().get(), remote.side().get(), &options};
  Explanation told;
  told.what = cat(name_of(op), " ", format_bytes(choice.bytes()), " in ", choice.descriptors(),
                  " descriptors, ", name_of(choice.local->list.kind()),
                  op == TransferOp::read ? " <- " : " -> ", name_of(choice.remote->list.kind()),
                  " of ", printable(choice.remote->peer->identity.name));
  TOWPATH_TRY(const SlotOrder order, order_of(choice));
  find_out(choice, order);
  const auto best = choose(choice);
  run::MutexLock lock(control_);
  for (const std::size_t index : order.all()) {
    Slot& slot = *slots()[index];
    Candidate candidate{.backend = slot.name, .possible = is_possible(choice, slot)};
    if (candidate.possible) {
      const Offer offer = offer_of(choice, slot);
      candidate.estimate = offer.cost;
      candidate.margin = offer.margin;
      candidate.measured = offer.is_measured;
      candidate.chosen = best.ok() && best->slot == index;
      candidate.reason = !order.asked       ? reason_of(offer, best.ok() ? *best : offer)
                         : candidate.chosen ? "asked for"
                                            : "comes later in what was asked for";
      candidate.path = path_over(choice, slot);
    } else {
      candidate.reason = refusal(choice, slot).message();
    }
    told.candidates.push_back(std::move(candidate));
  }
  return told;
}

std::string AgentCore::path_over(const Choice& choice, Slot& slot) {
  if (choice.local->list.records().empty()) return {};
  return with_slot(slot, [&]() TOWPATH_REQUIRES(slot.mutex) -> std::string {
    const backend::Memory* here = choice.local->list.records().front()->memory[slot.index].get();
    const backend::Memory* there = choice.remote->list.records().front()->memory[slot.index].get();
    return here != nullptr && there != nullptr ? slot.backend->describe_path(*here, *there) : "";
  });
}

Explanation AgentCore::explain(const TransferCore& transfer) {
  auto told = explain(transfer.op, PreparedList(transfer.local), PreparedList(transfer.remote),
                      transfer.options);
  return told.ok() ? *std::move(told)
                   : Explanation{.what = told.status().to_string(), .candidates = {}};
}

}  // namespace towpath::agent
