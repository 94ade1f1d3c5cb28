#include <algorithm>
#include <utility>

#include <towpath/agent/backend_set.h>
#include <towpath/core/text.h>

namespace towpath::agent {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all.append(all.empty() ? "" : ", ").append(name);
  return all.empty() ? "none" : all;
}

}  // namespace

Result<std::unique_ptr<Slot>> BackendSet::make(std::string_view type, const backend::Params& params,
                                               SlotOwner& owner) const {
  const AgentOptions& options = context_.options;
  TOWPATH_TRY(const backend::BackendType* found, options.registry->find(type));
  if (std::ranges::any_of(all(), [&](const auto& slot) { return slot->name == found->name; }))
    return error(Code::already_exists, cat("this agent has a backend ", found->name, " already"),
                 "use that one: an agent has one of each type");
  const std::size_t index = all().size();
  if (index == kMaxSlots)
    return error(Code::exhausted, cat("an agent has at most ", kMaxSlots, " backends"));
  auto slot = std::make_unique<Slot>(
      found->name, index, owner, context_.clock,
      context_.log.named(cat("agent ", printable(context_.self.name))), options.repeat_after);
  TOWPATH_TRY(slot->backend,
              options.registry->open(
                  type, {.self = context_.self,
                         .clock = &context_.clock,
                         .events = slot.get(),
                         .log = &context_.sink(),
                         .metrics = options.meter != nullptr ? &options.meter->metrics() : nullptr,
                         .params = params}));
  if (slot->backend->capabilities().reaches_peers())
    slot->connection_info = slot->backend->connection_info();
  return slot;
}

void BackendSet::publish(std::unique_ptr<Slot> slot) {
  const std::size_t index = slot->index;
  slots_[index] = std::move(slot);
  count_.store(index + 1, std::memory_order_release);
}

// For each region that is registered with backends by their names: those are searched first.
Result<Slot*> BackendSet::find(std::string_view type) const {
  const auto by_name = [&](std::string_view name) -> Slot* {
    for (const auto& slot : all()) {
      if (slot->name == name) return slot.get();
    }
    return nullptr;
  };
  if (Slot* const slot = by_name(type)) return slot;
  TOWPATH_TRY(const backend::BackendType* found, context_.options.registry->find(type));
  if (Slot* const slot = by_name(found->name)) return slot;
  return error(Code::not_found, cat("this agent has no backend ", found->name),
               cat("add_backend(\"", found->name, "\") first; it has: ", joined(names())));
}

std::vector<std::string> BackendSet::names(SlotMask which) const {
  std::vector<std::string> found;
  for (const auto& slot : all()) {
    if ((which & slot_bit(slot->index)) != 0) found.push_back(slot->name);
  }
  return found;
}

bool BackendSet::is_sooner(const Slot& slot, std::size_t than) const {
  if (than == kMaxSlots) return true;
  const Duration here = slot.backend->capabilities().cost.latency;
  const Duration there = at(than).backend->capabilities().cost.latency;
  return here != there ? here < there : slot.index < than;
}

std::vector<Slot*> BackendSet::soonest_first() const {
  std::vector<Slot*> order;
  for (const auto& slot : all()) order.push_back(slot.get());
  std::ranges::sort(order, [&](const Slot* a, const Slot* b) { return is_sooner(*a, b->index); });
  return order;
}

Result<Slot*> BackendSet::notifier_of(const Peer& peer) const {
  const std::size_t index = peer.notification_slot.load(std::memory_order_relaxed);
  if (index < kMaxSlots) return &at(index);
  return error(
      Code::unsupported,
      cat("no backend in common with ", to_string(peer.identity), " carries notifications"),
      "leave the notification out, or add a backend that carries them on both sides");
}

}  // namespace towpath::agent
