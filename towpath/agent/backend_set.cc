#include <algorithm>
#include <utility>

#include <towpath/agent/backend_set.h>
#include <towpath/core/format.h>
#include <towpath/telemetry/agent_meter.h>

namespace towpath::agent {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all.append(all.empty() ? "" : ", ").append(name);
  return all.empty() ? "none" : all;
}

}  // namespace

Result<std::unique_ptr<BackendInstance>> BackendSet::make(std::string_view type,
                                                          const backend::Params& params,
                                                          InstanceOwner& owner) const {
  const AgentOptions& options = context_.options;
  TOWPATH_TRY(const backend::BackendType* found, options.registry->find(type));
  if (std::ranges::any_of(all(),
                          [&](const auto& instance) { return instance->name == found->name; }))
    return error(Code::already_exists, cat("this agent has a backend ", found->name, " already"),
                 "use that one: an agent has one of each type");
  const std::size_t index = all().size();
  if (index == kMaxInstances)
    return error(Code::exhausted, cat("an agent has at most ", kMaxInstances, " backends"));
  auto instance = std::make_unique<BackendInstance>(
      found->name, index, owner, context_.clock,
      context_.log.named(cat("agent ", printable(context_.self.name))), options.repeat_after);
  TOWPATH_TRY(instance->backend,
              options.registry->open(
                  type, {.self = context_.self,
                         .clock = &context_.clock,
                         .events = instance.get(),
                         .log = &context_.sink,
                         .metrics = options.meter != nullptr ? &options.meter->metrics() : nullptr,
                         .params = params}));
  if (instance->backend->capabilities().reaches_peers())
    instance->connection_info = instance->backend->connection_info();
  return instance;
}

void BackendSet::publish(std::unique_ptr<BackendInstance> instance) {
  const std::size_t index = instance->index;
  instances_[index] = std::move(instance);
  count_.store(index + 1, std::memory_order_release);
}

void BackendSet::close(InstanceMask idle) noexcept {
  for (const auto& instance : all()) {
    std::unique_ptr<backend::Backend> last;  // goes without the lock: its end may wait
    run::MutexLock lock(instance->mutex);    // of all: a handle's call that is at one ends first
    if ((idle & instance_bit(instance->index)) != 0) last = std::move(instance->backend);
  }
}

// For each region that is registered with backends by their names: those are searched first.
Result<BackendInstance*> BackendSet::find(std::string_view type) const {
  const auto by_name = [&](std::string_view name) -> BackendInstance* {
    for (const auto& instance : all()) {
      if (instance->name == name) return instance.get();
    }
    return nullptr;
  };
  if (BackendInstance* const instance = by_name(type)) return instance;
  TOWPATH_TRY(const backend::BackendType* found, context_.options.registry->find(type));
  if (BackendInstance* const instance = by_name(found->name)) return instance;
  return error(Code::not_found, cat("this agent has no backend ", found->name),
               cat("add_backend(\"", found->name, "\") first; it has: ", joined(names())));
}

std::vector<std::string> BackendSet::names(InstanceMask which) const {
  std::vector<std::string> found;
  for (const auto& instance : all()) {
    if ((which & instance_bit(instance->index)) != 0) found.push_back(instance->name);
  }
  return found;
}

bool BackendSet::is_sooner(const BackendInstance& instance, std::size_t than) const {
  if (than == kMaxInstances) return true;
  const Duration here = instance.backend->capabilities().cost.latency;
  const Duration there = at(than).backend->capabilities().cost.latency;
  return here != there ? here < there : instance.index < than;
}

std::vector<BackendInstance*> BackendSet::soonest_first() const {
  std::vector<BackendInstance*> order;
  for (const auto& instance : all()) order.push_back(instance.get());
  std::ranges::sort(order, [&](const BackendInstance* a, const BackendInstance* b) {
    return is_sooner(*a, b->index);
  });
  return order;
}

Result<BackendInstance*> BackendSet::notifier_of(const Peer& peer) const {
  const std::size_t index = peer.notification_instance.load(std::memory_order_relaxed);
  if (index < kMaxInstances) return &at(index);
  return error(
      Code::unsupported,
      cat("no backend in common with ", to_string(peer.identity), " carries notifications"),
      "leave the notification out, or add a backend that carries them on both sides");
}

}  // namespace towpath::agent
