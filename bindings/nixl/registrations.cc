#include "bindings/nixl/registrations.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <towpath/core/format.h>

#include "bindings/nixl/named_region.h"
#include "bindings/nixl/vocabulary.h"

namespace towpath::nixl {
namespace {

using Regions = std::vector<memory::SharedRegion>;
using nixl::NixlBackend;

std::vector<std::string> names_of(const Registrations::Backends& backends) {
  std::vector<std::string> names;
  for (const NixlBackend& backend : backends) names.push_back(backend.name);
  return names;
}

Result<Regions> make_regions(MemoryKind kind, const nixl_capi_reg_dlist_s& list) {
  Regions regions;
  regions.reserve(list.entries.size());
  for (const NamedEntry& entry : list.entries) {
    TOWPATH_TRY(memory::SharedRegion region, make_region(kind, entry));
    regions.push_back(std::move(region));
  }
  return regions;
}

// NIXL registers no bytes of memory, too. There is nothing to do, nor to take back.
bool names_bytes(MemoryKind kind, const NamedEntry& entry) {
  return entry.where.length > 0 || (kind != MemoryKind::system && kind != MemoryKind::device);
}

/// Without what names no bytes; in `kept` if there is any.
const nixl_capi_reg_dlist_s& with_bytes(MemoryKind kind, const nixl_capi_reg_dlist_s& list,
                                        nixl_capi_reg_dlist_s& kept) {
  const auto names = [kind](const NamedEntry& entry) { return names_bytes(kind, entry); };
  if (std::ranges::all_of(list.entries, names)) return list;
  kept.type = list.type;
  std::ranges::copy_if(list.entries, std::back_inserter(kept.entries), names);
  return kept;
}

Registrations::Backends takers_of(const Registrations::Where& where, MemoryKind kind) {
  Registrations::Backends takers;
  for (const NixlBackend& backend : where.all) {
    const auto kinds = nixl::kinds_of(where.agent, backend);
    if (kinds.ok() && std::ranges::find(*kinds, kind) != kinds->end()) takers.push_back(backend);
  }
  return takers;
}

}  // namespace

Status Registrations::add(const Where& where, const nixl_capi_reg_dlist_s& given,
                          const telemetry::Log& log) {
  TOWPATH_TRY(const MemoryKind kind, given.kind());
  nixl_capi_reg_dlist_s kept;
  const nixl_capi_reg_dlist_s& list = with_bytes(kind, given, kept);
  if (list.entries.empty() && !given.entries.empty()) return {};
  TOWPATH_TRY(const Regions regions, make_regions(kind, list));
  const bool named = !where.named.empty();
  const Backends takers = named ? where.named : takers_of(where, kind);
  Status failure =
      error(Code::not_found, cat("no backend of this agent takes ", type_name(list.type)),
            "create one before registering");
  std::vector<std::pair<std::string, std::vector<memory::Registration>>> made;
  for (const NixlBackend& backend : takers) {
    auto registered =
        where.agent.register_regions(regions, {.backends = backend.types, .any_of_named = true});
    if (registered.ok()) {
      made.emplace_back(backend.name, *std::move(registered));
      continue;
    }
    failure = registered.status();
    if (named) return failure;  // what was made goes with `made`
    log.warning("a backend refused memory",
                {{"backend", backend.name}, {"why", failure.to_string()}});
  }
  if (made.empty()) return failure;
  run::MutexLock lock(mutex_);
  for (auto& [backend, registrations] : made) {
    for (std::size_t i = 0; i < registrations.size(); ++i)
      held_.emplace(key_of(backend, kind, list.entries[i].where), std::move(registrations[i]));
  }
  return {};
}

std::vector<Registrations::Held::node_type> Registrations::take_out(
    const std::string& backend, MemoryKind kind, const nixl_capi_reg_dlist_s& list) {
  std::vector<Held::node_type> taken;
  taken.reserve(list.entries.size());
  for (const NamedEntry& entry : list.entries) {
    auto node = held_.extract(key_of(backend, kind, entry.where));
    if (node.empty()) break;
    taken.push_back(std::move(node));
  }
  if (taken.size() == list.entries.size()) return taken;
  for (Held::node_type& node : taken) held_.insert(std::move(node));
  return {};
}

std::vector<Registrations::Held::node_type> Registrations::take_out_everywhere(
    MemoryKind kind, const nixl_capi_reg_dlist_s& list) {
  const std::vector<std::string> known = known_backends();
  std::vector<Held::node_type> taken;
  for (const NamedEntry& entry : list.entries) {
    const std::size_t before = taken.size();
    for (const std::string& backend : known) {
      auto node = held_.extract(key_of(backend, kind, entry.where));
      if (!node.empty()) taken.push_back(std::move(node));
    }
    if (taken.size() > before) continue;
    for (Held::node_type& node : taken) held_.insert(std::move(node));
    return {};
  }
  return taken;
}

Status Registrations::release(agent::Agent& agent, std::vector<Held::node_type> taken) {
  std::vector<memory::Registration> going;
  going.reserve(taken.size());
  for (Held::node_type& node : taken) going.push_back(std::move(node.mapped()));
  Status released = agent.release(going);
  if (released.ok()) return released;
  // Let go of here, each would be waited for once more, and nobody could name it again.
  run::MutexLock lock(mutex_);
  for (std::size_t i = 0; i < taken.size(); ++i) {
    taken[i].mapped() = std::move(going[i]);
    held_.insert(std::move(taken[i]));
  }
  return released;
}

std::vector<std::string> Registrations::known_backends() const {
  std::vector<std::string> known;
  for (auto at = held_.begin(); at != held_.end();) {
    known.push_back(std::get<0>(at->first));
    constexpr auto kMost = UINT64_MAX;
    at = held_.upper_bound({known.back(), MemoryKind::block, kMost, kMost, kMost});
  }
  return known;
}

Status Registrations::remove(agent::Agent& agent, const nixl_capi_reg_dlist_s& given,
                             const Backends& backends) {
  TOWPATH_TRY(const MemoryKind kind, given.kind());
  nixl_capi_reg_dlist_s kept;
  const nixl_capi_reg_dlist_s& list = with_bytes(kind, given, kept);
  std::vector<Held::node_type> going;
  bool missing = false;
  {
    run::MutexLock lock(mutex_);
    if (backends.empty()) going = take_out_everywhere(kind, list);
    for (const std::string& backend : names_of(backends)) {
      std::vector<Held::node_type> taken = take_out(backend, kind, list);
      missing = missing || taken.size() != list.entries.size();
      std::ranges::move(taken, std::back_inserter(going));
    }
  }
  const bool nothing = going.empty() && !list.entries.empty();
  TOWPATH_TRY(release(agent, std::move(going)));
  if (nothing || missing)
    return error(Code::not_found, "not all of these descriptors are registered",
                 "name them as they were registered: address, length and dev_id");
  return {};
}

}  // namespace towpath::nixl
