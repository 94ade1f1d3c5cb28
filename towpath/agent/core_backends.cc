// AgentCore: creation, backends, the end.
#include <algorithm>

#include <towpath/agent/core.h>
#include <towpath/core/text.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/random.h>

namespace towpath::agent {
namespace {

// Poller tags beside the slots' own indices.
constexpr std::uint64_t kWakerTag = 1000;
constexpr std::uint64_t kTimerTag = 1001;

bool runs_on_kernel_time(const Clock& clock) {
  const Duration apart = sys::SystemClock().now() - clock.now();
  return apart < std::chrono::seconds(1) && apart > -std::chrono::seconds(1);
}

}  // namespace

Result<std::shared_ptr<AgentCore>> AgentCore::create(const AgentOptions& options) {
  if (options.name.empty() || options.name.size() > kMaxAgentName) {
    return error(Code::invalid_argument, cat("an agent's name has 1 to ", kMaxAgentName,
                                             " bytes; this one has ", options.name.size()));
  }
  if (options.registry == nullptr || options.clock == nullptr)
    return error(Code::invalid_argument, "an agent needs a registry of backends and a clock",
                 "use standard::make_agent(), which brings both");
  AgentIdentity self{options.name,
                     options.incarnation != 0 ? options.incarnation : sys::random_u64()};
  std::shared_ptr<AgentCore> core(new AgentCore(options, std::move(self)));
  TOWPATH_TRY(run::Poller poller, run::Poller::open());
  core->poller_ = std::make_unique<run::Poller>(std::move(poller));
  TOWPATH_TRY(core->waker_, run::Waker::open());
  TOWPATH_TRY(core->waiting_,
              WaitingRoom::open({.poller = *core->poller_,
                                 .clock = core->clock_,
                                 .looks_pay = [&self = *core] { return self.looks_pay(); }}));
  TOWPATH_TRY(run::TimerFd timer, run::TimerFd::open());
  TOWPATH_TRY(core->poller_->add(core->waker_->fd(), kWakerTag));
  TOWPATH_TRY(core->poller_->add(timer.fd(), kTimerTag));
  {
    run::MutexLock lock(core->timer_mutex_);
    core->timer_ = std::make_unique<run::TimerFd>(std::move(timer));
  }
  core->self_peer_ = std::make_shared<Peer>();
  core->self_peer_->identity = core->self_;
  core->self_peer_->is_self = true;
  if (options.meter != nullptr) {
    options.meter->opened(core->self_.incarnation);
    core->self_peer_->meter = &options.meter->peer(core->self_.name);
  }
  return core;
}

AgentCore::AgentCore(const AgentOptions& options, AgentIdentity self)
    : options_(options),
      self_(std::move(self)),
      clock_(*options.clock),
      is_kernel_time_(runs_on_kernel_time(*options.clock)) {
  telemetry::EventSink& sink = options.log != nullptr ? *options.log : silence_;
  log_ = telemetry::Log(sink, clock_, cat("agent ", printable(self_.name)));
}

AgentCore::~AgentCore() = default;  // Agent, or its absence in a failed create(), has shut it down

Status AgentCore::add_backend(std::string_view type, const backend::Params& params) {
  run::MutexLock lock(control_);
  TOWPATH_TRY(const backend::BackendType* found, options_.registry->find(type));
  for (const auto& slot : slots()) {
    if (slot->name == found->name)
      return error(Code::already_exists, cat("this agent has a backend ", found->name, " already"),
                   "use that one: an agent has one of each type");
  }
  const std::size_t index = slot_count_.load(std::memory_order_relaxed);
  if (index == kMaxSlots)
    return error(Code::exhausted, cat("an agent has at most ", kMaxSlots, " backends"));
  auto slot = std::make_unique<Slot>(found->name, index, *this, clock_,
                                     log_.named(cat("agent ", printable(self_.name))),
                                     options_.repeat_after);
  TOWPATH_TRY(
      slot->backend,
      options_.registry->open(
          type, {.self = self_,
                 .clock = &clock_,
                 .events = slot.get(),
                 .log = options_.log != nullptr ? options_.log : &silence_,
                 .metrics = options_.meter != nullptr ? &options_.meter->metrics() : nullptr,
                 .params = params}));
  if (const int fd = slot->backend->wait_fd(); fd >= 0) TOWPATH_TRY(poller_->add(fd, index));
  if (slot->backend->capabilities().reaches_peers())
    slot->connection_info = slot->backend->connection_info();
  if (!slot->connection_info.empty()) rows_.tell_of(index);
  slots_[index] = std::move(slot);
  // Release: pairs with slots(), whose readers see the slot complete.
  slot_count_.store(index + 1, std::memory_order_release);
  ++card_generation_;
  return open_self(index);
}

Status AgentCore::open_self(std::size_t index) {
  Slot& slot = *slots_[index];
  const auto& routes = slot.backend->capabilities().routes;
  if (std::ranges::none_of(routes, &backend::Route::to_self)) return {};
  with_slot(slot, [&]() TOWPATH_REQUIRES(slot.mutex) {
    slot.open_way(self_peer_, slot.backend->connection_info());
  });
  if (!self_peer_->ways[index].connection) return self_peer_->ways[index].refusal;
  self_peer_->reachable.fetch_or(slot_bit(index));
  const bool notifies = slot.backend->capabilities().notifications != backend::Notifications::none;
  if (notifies && self_peer_->notification_slot == kMaxSlots) self_peer_->notification_slot = index;
  return {};
}

std::vector<std::string> AgentCore::backends() const {
  std::vector<std::string> names;
  for (const auto& slot : slots()) names.push_back(slot->name);
  return names;
}

std::vector<std::string> AgentCore::slot_names(SlotMask mask) const {
  std::vector<std::string> names;
  for (const auto& slot : slots()) {
    if ((mask & slot_bit(slot->index)) != 0) names.push_back(slot->name);
  }
  return names;
}

// For each region that is registered with backends by their names: those are asked for first.
Result<Slot*> AgentCore::slot_named(std::string_view type) const {
  for (const auto& slot : slots()) {
    if (slot->name == type) return slot.get();
  }
  TOWPATH_TRY(const backend::BackendType* found, options_.registry->find(type));
  for (const auto& slot : slots()) {
    if (slot->name == found->name) return slot.get();
  }
  std::string have;
  for (const std::string& name : backends()) have.append(have.empty() ? "" : ", ").append(name);
  return error(
      Code::not_found, cat("this agent has no backend ", found->name),
      cat("add_backend(\"", found->name, "\") first; it has: ", have.empty() ? "none" : have));
}

Result<std::vector<std::optional<backend::Params>>> AgentCore::query(
    std::string_view backend, std::span<const RegionDescriptor> descriptors) {
  TOWPATH_TRY(Slot * slot, slot_named(backend));
  return with_slot(
      *slot, [&]() TOWPATH_REQUIRES(slot->mutex) { return slot->backend->query(descriptors); });
}

void AgentCore::shut_down() {
  if (closed_.exchange(true)) return;
  if (options_.meter != nullptr) options_.meter->closed(self_.incarnation);
  const Status why = error(Code::cancelled, "the agent was shut down");
  for (const auto& slot : slots()) {
    const bool quiet = make_quiet(
        *slot, [](const TransferCore&) { return true; }, Outcome::cancelled, why);
    if (!quiet)
      log_.error("shut down with transfers that never got quiet", {{"backend", slot->name}});
  }
  SlotMask stuck = 0;
  for (const auto& slot : slots())
    if (!revoke_all(*slot)) stuck |= slot_bit(slot->index);
  run::MutexLock lock(control_);
  const auto everything = [](const TransferCore&) { return true; };
  for (const auto& slot : slots()) {
    run::MutexLock slot_lock(slot->mutex);
    if ((stuck & slot_bit(slot->index)) != 0 || slot->any_active(everything)) {
      // Bytes may still move: backend, connections and memory are let go of for good, with this
      // core.
      immortal_ = shared_from_this();
      continue;
    }
    const auto let_go = [&](MemoryRecord& record) { record.memory.drop(slot->index); };
    for (const RegionEntry& own : regions_.entries()) let_go(*own.record);
    for (const auto& [name, peer] : peers_) {
      peer->regions.each_record(let_go);
      slot->close_way(*peer);
    }
    for (const PeerPtr& peer : retired_) {
      peer->regions.each_record(let_go);
      slot->close_way(*peer);
    }
    slot->close_way(*self_peer_);
    if (const int fd = slot->backend->wait_fd(); fd >= 0) (void)poller_->remove(fd);
  }
  run::MutexLock pool_lock(pool_mutex_);
  for (const auto& transfer : pool_) transfer->operation.reset();
  pool_.clear();
}

}  // namespace towpath::agent
