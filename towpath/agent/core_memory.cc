// AgentCore: registrations.
#include <algorithm>
#include <array>
#include <ranges>
#include <typeinfo>
#include <utility>

#include <towpath/agent/core.h>
#include <towpath/core/text.h>
#include <towpath/run/poll_until.h>

namespace towpath::agent {

namespace {

/// So many regions are registered, and taken back, under one lock: who needs it waits no longer.
constexpr std::size_t kTogether = 32;

}  // namespace

// ---- Registering

Result<std::vector<memory::Registration>> AgentCore::register_regions(
    std::span<memory::SharedRegion> regions, const memory::RegisterOptions& options) {
  std::vector<memory::Registration> made;  // and what is in it when one fails goes with it
  made.reserve(regions.size());
  while (!regions.empty()) {
    const std::size_t count = std::min(regions.size(), kTogether);
    TOWPATH_TRY(register_some(regions.first(count), options, made));
    regions = regions.subspan(count);
  }
  return made;
}

Status AgentCore::register_some(std::span<memory::SharedRegion> regions,
                                const memory::RegisterOptions& options,
                                std::vector<memory::Registration>& made) {
  run::MutexLock lock(control_);
  if (closed_.load()) return error(Code::not_ready, "the agent was shut down");
  TOWPATH_TRY(const Takers by, takers(options));
  std::array<Joining, kTogether> room;
  const std::span<Joining> all = std::span(room).first(regions.size());
  Status status = find_records(regions, all);
  if (status.ok()) status = join(all, by);
  const auto cores = std::make_shared_for_overwrite<RegistrationCore[]>(all.size());
  for (std::size_t i = 0; i < all.size() && all[i].record; ++i) {
    MemoryRecord& record = *all[i].record;
    if (status.ok() && record.offered != all[i].offered_before) {
      rows_.remove(record);
      rows_.add(record);
    }
    if (record.slots == 0) {  // nobody will ever have it
      record.stale = true;
      regions_.note_gone();
    }
    if (all[i].taken == 0) continue;
    RegistrationCore& core = cores[i];
    core.told = told_of(all[i].taken);
    core.record = std::move(all[i].record);
    core.held = all[i].taken;
    core.region = std::move(regions[i]);
    made.emplace_back(std::shared_ptr<RegistrationCore>(cores, &core));
  }
  ++card_generation_;
  return status;
}

Result<AgentCore::Takers> AgentCore::takers(const memory::RegisterOptions& options) const {
  Takers by;
  for (const std::string& name : options.backends) {
    TOWPATH_TRY(Slot * slot, slot_named(name));
    by.named |= slot_bit(slot->index);
  }
  by.must = by.named != 0 && !options.any_of_named;
  return by;
}

// One that is not known yet is at once: the same may come twice in a list.
Status AgentCore::find_records(std::span<const memory::SharedRegion> regions,
                               std::span<Joining> all) {
  const OwnRecords fresh(regions.size());
  std::size_t used = 0;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    RecordPtr record = fresh.at(used);
    record->region = regions[i]->descriptor();
    if (record->region.length == 0)
      return error(Code::invalid_argument, cat("an empty region: ", to_string(record->region)),
                   "register at least one byte");
    if (const RegionEntry* const known = regions_.find_exactly(record->region)) {
      record = known->record;
    } else {
      regions_.add(record);
      ++used;
    }
    all[i].offered_before = record->offered;
    all[i].record = std::move(record);
  }
  return {};
}

Status AgentCore::join(std::span<Joining> all, const Takers& by) {
  for (const auto& slot : slots()) {
    if (by.named != 0 && (by.named & slot_bit(slot->index)) == 0) continue;
    TOWPATH_TRY(join(all, *slot, by.must));
  }
  const auto without = std::ranges::find(all, SlotMask{0}, &Joining::taken);
  if (without == all.end()) return {};
  return without->failure.ok() ? no_taker(without->record->region.kind) : without->failure;
}

Status AgentCore::join(std::span<Joining> all, Slot& slot, bool must) {
  const bool is_told = rows_.tells_of(slot.index);
  const backend::Capabilities& can = slot.backend->capabilities();
  bool any_refused = false;
  with_slot(slot, [&]() TOWPATH_REQUIRES(slot.mutex) {
    for (Joining& one : all) {
      if (!must && !can.takes(one.record->region.kind)) continue;
      one.refusal = attach(*one.record, slot, is_told);
      if (one.refusal.ok()) {
        one.taken |= slot_bit(slot.index);
        continue;
      }
      any_refused = true;
      if (must) break;
    }
  });
  if (!any_refused) return {};
  for (Joining& one : all) {
    if (one.refusal.ok()) continue;
    const Status why = std::exchange(one.refusal, {});
    const RegionDescriptor& region = one.record->region;
    one.failure = error(why.code(), cat("backend ", slot.name, " refused ", to_string(region)),
                        std::string(why.remedy()))
                      .because(why);
    if (must) return one.failure;
    tell_refusal(slot, region.kind, one.failure);
  }
  return {};
}

Status AgentCore::attach(MemoryRecord& record, Slot& slot, bool is_told) {
  std::uint32_t& references = record.own->references[slot.index];
  if (references == 0) {
    auto made = slot.backend->register_memory(record.region);
    if (options_.meter != nullptr)
      options_.meter->registered(
          {.backend = slot.name, .kind = record.region.kind, .bytes = record.region.length},
          made.status().code());
    if (!made.ok()) return made.status();
    if (is_told) {
      record.own->keys.add(slot.index, (*made)->key());
      record.offered |= slot_bit(slot.index);
    }
    record.memory[slot.index] = *std::move(made);
    record.slots |= slot_bit(slot.index);
  }
  ++references;
  return {};
}

Status AgentCore::no_taker(MemoryKind kind) const {
  std::string have;
  for (const auto& slot : slots()) have.append(have.empty() ? "" : ", ").append(slot->name);
  return error(Code::unsupported,
               cat("no backend of this agent takes ", name_of(kind),
                   " memory; it has: ", have.empty() ? "none" : have),
               "add a backend that does before registering");
}

// A pool is thousands of regions that the same backends take.
std::shared_ptr<const RegistrationCore::Told> AgentCore::told_of(SlotMask taken) {
  if (!last_told_ || last_told_->slots != taken)
    last_told_ = std::make_shared<const RegistrationCore::Told>(
        RegistrationCore::Told{weak_from_this(), self_.name, slot_names(taken), taken});
  return last_told_;
}

// Once for a backend and a kind: a pool is many regions, and mostly alike.
void AgentCore::tell_refusal(const Slot& slot, MemoryKind kind, const Status& why) {
  std::uint32_t& told = kinds_refused_[slot.index];
  const std::uint32_t bit = std::uint32_t{1} << static_cast<unsigned>(kind);
  log_.say((told & bit) == 0 ? telemetry::Level::warning : telemetry::Level::debug,
           "a backend refused a region", {{"backend", slot.name}, {"why", why.to_string()}});
  told |= bit;
}

// ---- Taking back

namespace {

/// Null: it is another agent's, or nothing.
RegistrationCore* core_of(const memory::Registration& registration,
                          const std::shared_ptr<AgentCore>& agent) {
  memory::RegistrationState* const state = registration.state();
  if (state == nullptr || typeid(*state) != typeid(RegistrationCore)) return nullptr;
  auto* const core = static_cast<RegistrationCore*>(state);
  return core->is_of(agent) ? core : nullptr;
}

}  // namespace

Status AgentCore::release(std::span<memory::Registration> registrations) {
  const std::shared_ptr<AgentCore> self = shared_from_this();
  Status status;
  // From the last on: that one's row ends the card, and is cut off.
  while (!registrations.empty()) {
    const std::size_t count = std::min(registrations.size(), kTogether);
    const auto some = registrations.last(count);
    registrations = registrations.first(registrations.size() - count);
    std::array<RegistrationCore*, kTogether> ours;
    std::size_t found = 0;
    for (std::size_t i = count; i-- > 0;) {
      if (RegistrationCore* const core = core_of(some[i], self))
        ours[found++] = core;
      else if (Status released = some[i].release(); !released.ok())
        status = std::move(released);
    }
    if (Status released = release(std::span(ours).first(found)); !released.ok())
      status = std::move(released);
    // Where nothing is left to do; others still stand for their registrations.
    for (memory::Registration& one : some)
      if (!one.is_registered()) (void)one.release();
  }
  return status;
}

// Whoever else needs control_ does not wait for what moves: it is free while this does.
Status AgentCore::release(std::span<RegistrationCore* const> registrations) {
  std::array<Leaving, kTogether> room;
  std::array<std::unique_ptr<backend::PeerPieces>, kMaxSlots> pieces;
  std::span<Leaving> all;
  {
    run::MutexLock lock(control_);
    std::size_t count = 0;
    for (RegistrationCore* const one : registrations)
      if (!one->released.load(std::memory_order_acquire)) room[count++].registration = one;
    all = std::span(room).first(count);
    for (const auto& slot : slots())
      if (!closed_.load()) revoke(all, *slot, pieces[slot->index]);
  }
  for (const auto& slot : slots()) quiesce(all, *slot, pieces[slot->index].get());
  run::MutexLock lock(control_);
  for (const auto& slot : slots())
    if (!closed_.load()) drop_quiesced(all, *slot);
  Status status;
  for (Leaving& one : all)
    if (Status finished = finish_release(one); !finished.ok()) status = std::move(finished);
  ++card_generation_;
  return status;
}

bool AgentCore::leave(Leaving& one, Slot& slot) {
  const SlotMask bit = slot_bit(slot.index);
  if ((one.registration->held & bit) == 0) return false;
  MemoryRecord& record = *one.registration->record;
  std::uint32_t& references = record.own->references[slot.index];
  if (references > 0) --references;  // else an earlier try found it not quiesced
  if (references > 0) {
    one.registration->held &= ~bit;
    return false;
  }
  one.last |= bit;
  record.slots &= ~bit;
  record.stale = true;
  rows_.remove(record);
  return true;
}

void AgentCore::revoke(std::span<Leaving> all, Slot& slot,
                       std::unique_ptr<backend::PeerPieces>& pieces) {
  bool any_last = false;
  for (Leaving& one : all) any_last |= leave(one, slot);
  if (!any_last) return;
  memory_generation_.fetch_add(1, std::memory_order_release);  // pairs with is_current()
  const SlotMask bit = slot_bit(slot.index);
  with_slot(slot, [&]() TOWPATH_REQUIRES(slot.mutex) {
    for (const Leaving& one : all) {
      if ((one.last & bit) == 0) continue;
      if (auto* const memory = one.registration->record->memory.at(slot.index)) memory->revoke();
    }
    pieces = slot.backend->pieces_under_way();
    const bool may_move =
        pieces != nullptr || slot.any_active([](const TransferCore&) { return true; });
    for (Leaving& one : all) {
      if ((one.last & bit) == 0) continue;
      if (may_move)
        one.moves |= bit;
      else
        one.registration->record->memory.drop(slot.index);
    }
  });
  for (Leaving& one : all)
    if ((one.last & ~one.moves & bit) != 0) note_dropped(one, slot);
}

void AgentCore::note_dropped(Leaving& one, const Slot& slot) {
  const RecordPtr& record = one.registration->record;
  one.registration->held &= ~slot_bit(slot.index);
  std::erase(unquiet_, record);
  if (options_.meter != nullptr)
    options_.meter->deregistered(
        {.backend = slot.name, .kind = record->region.kind, .bytes = record->region.length});
}

void AgentCore::quiesce(std::span<Leaving> all, Slot& slot, backend::PeerPieces* pieces) {
  const SlotMask bit = slot_bit(slot.index);
  const auto waits = [bit](const Leaving& one) { return (one.moves & bit) != 0; };
  const auto first = std::ranges::find_if(all, waits);
  if (first == all.end()) return;
  const auto touches = [&](const TransferCore& transfer) {
    return std::ranges::any_of(all, [&](const Leaving& one) {
      return waits(one) && transfer.touches(one.registration->record.get());
    });
  };
  const std::string region = to_string(first->registration->record->region);
  (void)make_quiet(slot, touches, Outcome::cancelled,
                   error(Code::cancelled, cat(region, " was deregistered")));
  const Status peers = wait_for(pieces);
  if (peers.ok()) return;
  for (Leaving& one : all | std::views::filter(waits))
    one.status =
        error(Code::not_ready,
              cat(to_string(one.registration->record->region),
                  " is not safe to reuse, and stays registered and alive: ", peers.message()),
              std::string(peers.remedy()));
}

Status AgentCore::wait_for(backend::PeerPieces* pieces) const {
  Status why;
  if (pieces == nullptr) return why;
  (void)run::poll_until(
      [&] {
        why = pieces->check();
        return why.ok();
      },
      options_.quiet_patience);
  return why;
}

void AgentCore::drop_quiesced(std::span<Leaving> all, Slot& slot) {
  const SlotMask bit = slot_bit(slot.index);
  const auto waits = [bit](const Leaving& one) { return (one.moves & bit) != 0; };
  if (std::ranges::none_of(all, waits)) return;
  with_slot(slot, [&]() TOWPATH_REQUIRES(slot.mutex) {
    for (Leaving& one : all | std::views::filter(waits)) {
      MemoryRecord& record = *one.registration->record;
      if (!one.status.ok()) continue;
      if (slot.any_active([&](const TransferCore& transfer) { return transfer.touches(&record); }))
        one.status = error(Code::not_ready, cat("backend ", slot.name, " cannot promise that ",
                                                to_string(record.region),
                                                " is quiesced; it stays registered and alive"));
      else
        record.memory.drop(slot.index);
    }
  });
  for (Leaving& one : all | std::views::filter(waits)) {
    const RecordPtr& record = one.registration->record;
    if (one.status.ok())
      note_dropped(one, slot);
    else if (std::ranges::find(unquiet_, record) == unquiet_.end())
      unquiet_.push_back(record);
  }
}

bool AgentCore::revoke_all(Slot& slot) {
  std::unique_ptr<backend::PeerPieces> pieces;
  {
    run::MutexLock lock(control_);
    pieces = with_slot(slot, [&]() TOWPATH_REQUIRES(slot.mutex) {
      for (const RegionEntry& own : regions_.entries())
        if (auto* const memory = own.record->memory.at(slot.index)) memory->revoke();
      return slot.backend->pieces_under_way();
    });
  }
  const Status peers = wait_for(pieces.get());
  if (!peers.ok())
    log_.error("shut down while a peer may still move bytes: what was registered stays alive",
               {{"backend", slot.name}, {"why", peers.to_string()}});
  return peers.ok();
}

bool AgentCore::make_quiet(Slot& slot, const std::function<bool(const TransferCore&)>& matches,
                           Outcome outcome, const Status& why) {
  const auto active = with_slot(
      slot, [&]() TOWPATH_REQUIRES(slot.mutex) { return slot.stop_all(matches, outcome, why); });
  if (active.empty()) return true;
  const backend::Capabilities& can = slot.backend->capabilities();
  if (can.quiet == backend::Quiet::none) return false;
  // They cannot be posted again: their memory is stale, or the agent closed.
  const auto have_ended = [&] {
    return std::ranges::all_of(active, [](const auto& transfer) {
      return transfer->state.load(std::memory_order_seq_cst) == TransferState::ended;
    });
  };
  // control_ may be held by this thread: progress without burying anybody. And should the clock
  // stand still, patience is what was slept.
  waiting_->wait({.timeout = can.quiet_bound + options_.quiet_patience, .counts_sleep = true},
                 have_ended, [this] { return progress_slots(); });
  return have_ended();
}

Status AgentCore::finish_release(Leaving& one) {
  RegistrationCore& registration = *one.registration;
  MemoryRecord& record = *registration.record;
  if (record.slots == 0) regions_.note_gone();
  // Of an agent that was shut down with transfers that never got quiet: the record stays for good.
  const bool is_stuck = closed_.load() && record.memory.any();
  const bool is_quiet = one.status.ok() && !is_stuck;
  std::vector<memory::SharedRegion>& owners = record.own->owners;
  const auto owner = std::ranges::find(owners, registration.region);
  // The record, too, holds the bytes of what is not: the user may let go of the registration.
  if (!is_quiet && owner == owners.end()) owners.push_back(registration.region);
  if (is_quiet && owner != owners.end()) owners.erase(owner);
  if (!one.status.ok()) return std::move(one.status);
  if (is_stuck)
    return error(Code::not_ready, cat(to_string(record.region),
                                      " is not safe to reuse, and stays alive: the agent was shut "
                                      "down while bytes of it could still move"));
  registration.region.reset();
  // Release: who sees it sees the region let go.
  registration.released.store(true, std::memory_order_release);
  return {};
}

// A transfer's handle may keep the core of an agent that is gone.
bool RegistrationCore::is_registered() const {
  if (released.load(std::memory_order_acquire)) return false;
  const std::shared_ptr<AgentCore> agent = told->agent.lock();
  return agent && !agent->is_shut_down();
}

Status RegistrationCore::release() {
  if (released.load(std::memory_order_acquire)) return {};
  if (const std::shared_ptr<AgentCore> agent = told->agent.lock()) {
    RegistrationCore* const self = this;
    return agent->release(std::span(&self, 1));
  }
  if (!released.exchange(true, std::memory_order_acq_rel)) region.reset();
  return {};
}

}  // namespace towpath::agent
