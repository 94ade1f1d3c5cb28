// AgentCore: registrations.
#include <algorithm>

#include <towpath/agent/core.h>
#include <towpath/core/text.h>

namespace towpath::agent {

Result<SlotMask> AgentCore::wanted_slots(const std::vector<std::string>& names) const {
  SlotMask wanted = 0;
  for (const std::string& name : names) {
    TOWPATH_TRY(Slot * slot, slot_named(name));
    wanted |= slot_bit(slot->index);
  }
  return wanted;
}

Result<memory::Registration> AgentCore::register_region(memory::SharedRegion region,
                                                        const memory::RegisterOptions& options) {
  const RegionDescriptor descriptor = region->descriptor();
  if (descriptor.length == 0)
    return error(Code::invalid_argument, cat("an empty region: ", to_string(descriptor)),
                 "register at least one byte");
  run::MutexLock lock(control_);
  if (closed_.load()) return error(Code::not_ready, "the agent was shut down");
  TOWPATH_TRY(const SlotMask named, wanted_slots(options.backends));
  RecordPtr record = record_of(regions_.find_exactly(descriptor));
  const bool is_new = record == nullptr;
  if (is_new) {
    record = make_own_record();
    record->region = descriptor;
  }
  const SlotMask offered_before = record->offered;
  const bool is_strict = named != 0 && !options.any_of_named;
  SlotMask taken = 0;
  Status failure;
  for (const auto& slot : slots()) {
    if (named != 0 && (named & slot_bit(slot->index)) == 0) continue;
    if (!is_strict && !slot->backend->capabilities().takes(descriptor.kind)) continue;
    Status attached = attach(*record, *slot);
    if (attached.ok()) {
      taken |= slot_bit(slot->index);
    } else {
      failure =
          error(attached.code(), cat("backend ", slot->name, " refused ", to_string(descriptor)),
                std::string(attached.remedy()))
              .because(attached);
      if (is_strict) break;
      tell_refusal(*slot, descriptor.kind, failure);
    }
  }
  if (taken == 0 || (is_strict && !failure.ok())) {
    for (const auto& slot : slots()) {
      if ((taken & slot_bit(slot->index)) != 0) (void)detach(record, *slot);
    }
    if (!failure.ok()) return failure;
    std::string have;
    for (const auto& slot : slots()) have.append(have.empty() ? "" : ", ").append(slot->name);
    return error(Code::unsupported,
                 cat("no backend of this agent takes ", name_of(descriptor.kind),
                     " memory; it has: ", have.empty() ? "none" : have),
                 "add a backend that does before registering");
  }
  if (is_new) regions_.add(record);
  if (record->offered != offered_before) {
    rows_.remove(*record);
    rows_.add(*record);
  }
  ++card_generation_;
  return memory::Registration(std::make_shared<RegistrationCore>(weak_from_this(), told_of(taken),
                                                                 record, taken, std::move(region)));
}

// A pool is thousands of regions that the same backends take.
std::shared_ptr<const RegistrationCore::Told> AgentCore::told_of(SlotMask taken) {
  if (!last_told_ || last_told_->slots != taken)
    last_told_ = std::make_shared<const RegistrationCore::Told>(
        RegistrationCore::Told{self_.name, slot_names(taken), taken});
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

Status AgentCore::attach(MemoryRecord& record, Slot& slot) {
  if (record.own->references[slot.index] == 0) {
    const bool is_told = rows_.tells_of(slot.index);
    Bytes key;
    auto made = with_slot(slot, [&]() TOWPATH_REQUIRES(slot.mutex) {
      auto memory = slot.backend->register_memory(record.region);
      if (is_told && memory.ok()) key = (*memory)->key();
      return memory;
    });
    if (options_.meter != nullptr)
      options_.meter->registered(
          {.backend = slot.name, .kind = record.region.kind, .bytes = record.region.length},
          made.status().code());
    if (!made.ok()) return made.status();
    record.memory[slot.index] = *std::move(made);
    record.slots |= slot_bit(slot.index);
    if (is_told) {
      record.own->keys.add(slot.index, key);
      record.offered |= slot_bit(slot.index);
    }
  }
  ++record.own->references[slot.index];
  return {};
}

// The last registration of a region in a backend goes: what still moves its bytes is stopped first.
Status AgentCore::detach(const RecordPtr& record, Slot& slot) {
  std::uint32_t& references = record->own->references[slot.index];
  if (references > 0) --references;  // else an earlier try found it not quiet
  if (references > 0) return {};
  record->slots &= ~slot_bit(slot.index);
  record->stale = true;
  rows_.remove(*record);
  memory_generation_.fetch_add(1, std::memory_order_release);  // pairs with is_current()
  if (!let_go(*record, slot)) {
    if (std::ranges::find(unquiet_, record) == unquiet_.end()) unquiet_.push_back(record);
    return error(Code::not_ready,
                 cat("backend ", slot.name, " cannot promise that ", to_string(record->region),
                     " is quiet; it stays registered and alive"));
  }
  if (options_.meter != nullptr)
    options_.meter->deregistered(
        {.backend = slot.name, .kind = record->region.kind, .bytes = record->region.length});
  std::erase(unquiet_, record);
  return {};
}

// Mostly nothing moves its bytes: then there is nothing to say, and nobody to wait for.
bool AgentCore::let_go(MemoryRecord& record, Slot& slot) {
  const auto touches = [&](const TransferCore& transfer) { return transfer.touches(&record); };
  const auto drop_unless_moving = [&]() TOWPATH_REQUIRES(slot.mutex) {
    if (slot.any_active(touches)) return false;
    record.memory.drop(slot.index);
    return true;
  };
  if (with_slot(slot, drop_unless_moving)) return true;
  const Status why = error(Code::cancelled, cat(to_string(record.region), " was deregistered"));
  return make_quiet(slot, touches, Outcome::cancelled, why) && with_slot(slot, drop_unless_moving);
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

Status AgentCore::release(RegistrationCore& registration) {
  run::MutexLock lock(control_);
  if (registration.released.load(std::memory_order_acquire)) return {};
  Status status;
  for (const auto& slot : slots()) {
    const SlotMask bit = slot_bit(slot->index);
    if ((registration.held & bit) == 0 || closed_.load()) continue;
    Status detached = detach(registration.record, *slot);
    if (detached.ok()) {
      registration.held &= ~bit;
    } else {
      status = detached;
    }
  }
  ++card_generation_;
  MemoryRecord& record = *registration.record;
  if (record.slots == 0) regions_.note_gone();
  // Of an agent that was shut down with transfers that never got quiet: the record stays for good.
  const bool is_stuck = closed_.load() && record.memory.any();
  const bool is_quiet = status.ok() && !is_stuck;
  std::vector<memory::SharedRegion>& owners = record.own->owners;
  const auto owner = std::ranges::find(owners, registration.region);
  // The record, too, holds the bytes of what is not: the user may let go of the registration.
  if (!is_quiet && owner == owners.end()) owners.push_back(registration.region);
  if (is_quiet && owner != owners.end()) owners.erase(owner);
  if (!status.ok()) return status;
  registration.region.reset();
  // Release: who sees it sees the region let go.
  registration.released.store(true, std::memory_order_release);
  return {};
}

// A transfer's handle may keep the core of an agent that is gone.
bool RegistrationCore::is_registered() const {
  if (released.load(std::memory_order_acquire)) return false;
  const std::shared_ptr<AgentCore> agent = agent_.lock();
  return agent && !agent->is_shut_down();
}

Status RegistrationCore::release() {
  if (const std::shared_ptr<AgentCore> agent = agent_.lock()) return agent->release(*this);
  if (!released.exchange(true, std::memory_order_acq_rel)) region.reset();
  return {};
}

}  // namespace towpath::agent
