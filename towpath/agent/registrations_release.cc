// Registrations: the way back, from a registration that goes to memory that nothing touches.
#include <algorithm>
#include <new>
#include <ranges>
#include <typeinfo>
#include <utility>

#include <towpath/agent/core.h>
#include <towpath/agent/registration_core.h>
#include <towpath/core/format.h>
#include <towpath/run/poll_until.h>
#include <towpath/telemetry/agent_meter.h>

namespace towpath::agent {
namespace {

/// Null: it is another agent's, or nothing.
RegistrationCore* core_of(const memory::Registration& registration,
                          const std::weak_ptr<AgentCore>& agent) {
  memory::RegistrationState* const state = registration.state();
  if (state == nullptr || typeid(*state) != typeid(RegistrationCore)) return nullptr;
  auto* const core = static_cast<RegistrationCore*>(state);
  return core->is_of(agent) ? core : nullptr;
}

}  // namespace

Status Registrations::release(std::span<memory::Registration> registrations) {
  Status status;
  // From the last on: that one's row ends the metadata, and is cut off.
  while (!registrations.empty()) {
    const std::size_t count = std::min(registrations.size(), kTogether);
    const auto some = registrations.last(count);
    registrations = registrations.first(registrations.size() - count);
    std::array<RegistrationCore*, kTogether> ours;
    std::size_t found = 0;
    for (std::size_t i = count; i-- > 0;) {
      if (RegistrationCore* const core = core_of(some[i], context_.core))
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

// Others register, prepare and load metadata while this waits for what moves.
Status Registrations::release(std::span<RegistrationCore* const> registrations) {
  std::array<Leaving, kTogether> room;
  std::array<std::unique_ptr<backend::PeerPieces>, kMaxInstances> pieces;
  std::span<Leaving> all;
  {
    run::MutexLock lock(mutex_);
    std::size_t count = 0;
    for (RegistrationCore* const one : registrations)
      if (!one->released.load(std::memory_order_acquire)) room[count++].registration = one;
    all = std::span(room).first(count);
    for (const auto& instance : backends_.all())
      if (!context_.is_closed()) revoke(all, *instance, pieces[instance->index]);
    advertise_rest(all);
  }
  for (const auto& instance : backends_.all())
    quiesce(all, *instance, pieces[instance->index].get());
  run::MutexLock lock(mutex_);
  for (const auto& instance : backends_.all())
    if (!context_.is_closed()) drop_quiesced(all, *instance);
  Status status;
  for (Leaving& one : all)
    if (Status finished = finish_release(one); !finished.ok()) status = std::move(finished);
  ++generation_;
  return status;
}

bool Registrations::leave(Leaving& one, const BackendInstance& instance) {
  const InstanceMask bit = instance_bit(instance.index);
  if ((one.registration->held & bit) == 0) return false;
  MemoryRecord& record = *one.registration->record;
  const bool is_leaving = (record.own->leaving & bit) != 0;  // an earlier try found it not quiesced
  if (!is_leaving && --record.own->references[instance.index] > 0) {
    one.registration->held &= ~bit;
    return false;
  }
  one.last |= bit;
  take_out(record, instance);
  return true;
}

// Nothing changes when it is done again.
void Registrations::take_out(MemoryRecord& record, const BackendInstance& instance) {
  const InstanceMask bit = instance_bit(instance.index);
  record.instances &= ~bit;
  if (record.instances == 0) record.stale = true;
  if ((record.own->leaving & bit) == 0) ++record.own->changes[instance.index];
  record.own->leaving |= bit;
  rows_.remove(record);
  record.own->keys.remove(instance.index);
  record.offered &= ~bit;
}

void Registrations::advertise_rest(std::span<const Leaving> all) {
  for (const Leaving& one : all) {
    MemoryRecord& record = *one.registration->record;
    if (one.last == 0 || record.stale) continue;
    rows_.remove(record);  // it may come twice
    rows_.add(record);
  }
}

void Registrations::revoke(std::span<Leaving> all, BackendInstance& instance,
                           std::unique_ptr<backend::PeerPieces>& pieces) {
  bool any_last = false;
  for (Leaving& one : all) any_last |= leave(one, instance);
  if (!any_last) return;
  context_.note_memory_gone();
  const InstanceMask bit = instance_bit(instance.index);
  engine_.with(instance, [&]() TOWPATH_REQUIRES(instance.mutex) {
    for (const Leaving& one : all) {
      if ((one.last & bit) == 0) continue;
      if (auto* const memory = one.registration->record->memory.at(instance.index))
        memory->revoke();
    }
    pieces = instance.backend->pieces_under_way();
    const bool may_move =
        pieces != nullptr || instance.any_active([](const TransferCore&) { return true; });
    for (Leaving& one : all) {
      if ((one.last & bit) == 0) continue;
      if (may_move)
        one.moves |= bit;
      else
        one.registration->record->memory.drop(instance.index);
    }
  });
  for (const Leaving& one : all) {
    if ((one.last & bit) == 0) continue;
    const RecordPtr& record = one.registration->record;
    if ((one.moves & bit) == 0)
      note_dropped(one, instance);
    else if (std::ranges::find(leaving_, record) == leaving_.end())
      leaving_.push_back(record);
  }
}

void Registrations::note_dropped(const Leaving& one, const BackendInstance& instance) {
  const RecordPtr& record = one.registration->record;
  one.registration->held &= ~instance_bit(instance.index);
  record->own->leaving &= ~instance_bit(instance.index);
  if (record->own->leaving == 0) std::erase(leaving_, record);
  if (telemetry::AgentMeter* const meter = context_.meter())
    meter->deregistered({.backend = instance.name,
                         .kind = record->region.kind,
                         .bytes = record->region.length,
                         .is_alone = (record->instances | record->own->leaving) == 0});
}

// What is stopped here cannot be posted again: its record is out of the instance.
void Registrations::quiesce(std::span<Leaving> all, BackendInstance& instance,
                            backend::PeerPieces* pieces) {
  const InstanceMask bit = instance_bit(instance.index);
  const auto waits = [bit](const Leaving& one) { return (one.moves & bit) != 0; };
  const auto first = std::ranges::find_if(all, waits);
  if (first == all.end()) return;
  const auto touches = [&](const TransferCore& transfer) {
    return std::ranges::any_of(all, [&](const Leaving& one) {
      return waits(one) && transfer.touches(one.registration->record.get());
    });
  };
  const std::string region = to_string(first->registration->record->region);
  (void)engine_.quiesce(instance, touches, Outcome::cancelled,
                        error(Code::cancelled, cat(region, " was deregistered")));
  const Status peers = wait_for(pieces);
  if (peers.ok()) return;
  for (Leaving& one : all | std::views::filter(waits))
    one.status =
        error(Code::not_ready,
              cat(to_string(one.registration->record->region),
                  " is not safe to reuse, and stays registered and alive: ", peers.message()),
              std::string(peers.hint()));
}

Status Registrations::wait_for(backend::PeerPieces* pieces) const {
  Status why;
  if (pieces == nullptr) return why;
  (void)run::poll_until(
      [&] {
        why = pieces->check();
        return why.ok();
      },
      context_.options.quiesce_timeout);
  return why;
}

void Registrations::drop_quiesced(std::span<Leaving> all, BackendInstance& instance) {
  const InstanceMask bit = instance_bit(instance.index);
  // Not what another thread, which released the same, has dropped: others may have joined since.
  const auto waits = [bit](const Leaving& one) {
    return (one.moves & one.registration->held & bit) != 0;
  };
  if (std::ranges::none_of(all, waits)) return;
  engine_.with(instance, [&]() TOWPATH_REQUIRES(instance.mutex) {
    for (Leaving& one : all | std::views::filter(waits)) {
      MemoryRecord& record = *one.registration->record;
      if (!one.status.ok()) continue;
      if (instance.any_active(
              [&](const TransferCore& transfer) { return transfer.touches(&record); }))
        one.status = error(Code::not_ready, cat("backend ", instance.name, " cannot promise that ",
                                                to_string(record.region),
                                                " is quiesced; it stays registered and alive"));
      else
        record.memory.drop(instance.index);
    }
  });
  for (const Leaving& one : all)
    if (waits(one) && one.status.ok()) note_dropped(one, instance);
}

bool Registrations::revoke_all(BackendInstance& instance) {
  std::unique_ptr<backend::PeerPieces> pieces;
  {
    run::MutexLock lock(mutex_);
    pieces = engine_.with(instance, [&]() TOWPATH_REQUIRES(mutex_, instance.mutex) {
      each_record([&](const MemoryRecord& record) {
        if (auto* const memory = record.memory.at(instance.index)) memory->revoke();
      });
      return instance.backend->pieces_under_way();
    });
  }
  const Status peers = wait_for(pieces.get());
  if (!peers.ok())
    context_.log.error(
        "shut down while a peer may still move bytes: what was registered stays alive",
        {{"backend", instance.name}, {"why", peers.to_string()}});
  return peers.ok();
}

Status Registrations::finish_release(Leaving& one) {
  RegistrationCore& registration = *one.registration;
  if (registration.released.load(std::memory_order_acquire)) return {};  // by another thread
  MemoryRecord& record = *registration.record;
  if (record.instances == 0) regions_.note_gone();
  // Of an agent that was shut down with transfers that did not end: the record stays for good.
  const bool is_stuck = context_.is_closed() && record.memory.any();
  const bool is_quiesced = one.status.ok() && !is_stuck;
  std::vector<memory::SharedRegion>& owners = record.own->owners;
  const auto owner = std::ranges::find(owners, registration.region);
  // The record, too, holds the bytes of what is not: the user may let go of the registration.
  if (!is_quiesced && owner == owners.end()) owners.push_back(registration.region);
  if (is_quiesced && owner != owners.end()) owners.erase(owner);
  if (!one.status.ok()) return std::move(one.status);
  if (is_stuck)
    return error(Code::not_ready, cat(to_string(record.region),
                                      " is not safe to reuse, and stays alive: the agent was shut "
                                      "down while bytes of it could still move"));
  registration.region.reset();
  // Release: a reader that sees it sees the region let go.
  registration.released.store(true, std::memory_order_release);
  return {};
}

// A transfer's handle may keep the core of an agent that is gone.
bool RegistrationCore::is_registered() const {
  if (released.load(std::memory_order_acquire)) return false;
  const std::shared_ptr<AgentCore> agent = shared->agent.lock();
  return agent && !agent->context.is_closed();
}

// In a forked child the memory stays as it is: the parent's peers, and its drivers, know of it.
RegistrationCore::~RegistrationCore() {
  if (!region) return;
  const std::shared_ptr<AgentCore> agent = shared->agent.lock();
  if (keeps_region || (agent && agent->context.is_inherited()))
    (void)new (std::nothrow) memory::SharedRegion(std::move(region));
}

Status RegistrationCore::release() {
  if (released.load(std::memory_order_acquire)) return {};
  if (const std::shared_ptr<AgentCore> agent = shared->agent.lock()) {
    TOWPATH_TRY(agent->context.check_own());
    const ProgressEngine::HandleCall counted(agent->engine);
    RegistrationCore* const self = this;
    try {
      keeps_region = false;
      return agent->registrations.release(std::span(&self, 1));
    } catch (const std::bad_alloc&) {
      keeps_region = true;
      return agent->context.no_memory;
    }
  }
  if (!released.exchange(true, std::memory_order_acq_rel)) region.reset();
  return {};
}

}  // namespace towpath::agent
