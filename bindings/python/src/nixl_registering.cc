// Backends and memory of towpath.nixl.
#include <algorithm>
#include <climits>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include <towpath/compat/nixl/params.h>
#include <towpath/core/format.h>

#include "bindings/python/src/nixl_agent.h"
#include "bindings/python/src/nixl_handles.h"
#include "bindings/python/src/nixl_lists.h"
#include "bindings/python/src/registering.h"

namespace towpath::python {
namespace {

using agent::Agent;
using BackendNumber = NixlMemory::BackendNumber;

const RegList& reg_list(py::handle source) {
  const RegList* const list = as_list<RegList>(source);
  if (list == nullptr) throw py::type_error("expected a nixlRegDList");
  return *list;
}

/// As NIXL's users mean it: no length is all of a file or an object, and a small device of a file
/// is its descriptor.
RegionDescriptor region_of(MemoryKind kind, const RegItem& item) {
  constexpr std::uint64_t kWholeObject = INT64_MAX;
  const auto [address, length, device] = item.where;
  const bool has_size = kind == MemoryKind::system || kind == MemoryKind::device;
  const bool is_whole = !has_size && length == 0 && address < kWholeObject;
  const bool is_fd = kind == MemoryKind::disk && device <= INT_MAX;
  return checked({.kind = kind,
                  .address = address,
                  .length = is_whole ? kWholeObject - address : length,
                  .device_id = device,
                  .fd = is_fd ? static_cast<int>(device) : -1,
                  .key = item.meta});
}

using ItemsByPlace = std::vector<const RegItem*>;

/// Nobody sees in which order a list is registered, or taken back, since both are done as a whole.
/// By place, what belongs to neighbours lies side by side in memory, and in the agent's tables.
/// NIXL registers no bytes of memory, too: there is nothing to do, nor to take back.
ItemsByPlace by_place(MemoryKind kind, const std::vector<RegItem>& items) {
  const bool may_be_empty = kind == MemoryKind::system || kind == MemoryKind::device;
  ItemsByPlace ordered;
  ordered.reserve(items.size());
  for (const RegItem& item : items) {
    if (item.where.length > 0 || !may_be_empty) ordered.push_back(&item);
  }
  const auto place = [](const RegItem* item) { return item->where.address; };
  if (!std::ranges::is_sorted(ordered, {}, place)) std::ranges::stable_sort(ordered, {}, place);
  return ordered;
}

std::vector<Descriptor> places_of(const ItemsByPlace& items) {
  std::vector<Descriptor> places;
  places.reserve(items.size());
  for (const RegItem* const item : items) places.push_back(item->where);
  return places;
}

/// Some of them share a piece of memory, for which what is left over of a list is held.
std::vector<memory::SharedRegion> regions_of(MemoryKind kind, const ItemsByPlace& items) {
  constexpr std::size_t kTogether = 32;
  std::vector<memory::SharedRegion> regions;
  regions.reserve(items.size());
  std::shared_ptr<std::vector<HeldRegion>> some;
  for (const RegItem* const item : items) {
    const std::size_t at = regions.size() % kTogether;
    if (at == 0) {
      some = std::make_shared<std::vector<HeldRegion>>();
      some->reserve(std::min(kTogether, items.size() - regions.size()));
    }
    some->push_back(held(region_of(kind, *item), item->owner));
    regions.emplace_back(some, &some->back());
  }
  return regions;
}

Status no_taker(MemoryKind kind) {
  return error(Code::not_found, cat("no backend of this agent takes ", name_of(kind), " memory"),
               "create one that does before registering");
}

/// What none of the backends that are asked can take is refused by them, to NIXL's users.
Status as_refusal(const Status& why) {
  if (why.code() != Code::unsupported) return why;
  return error(Code::unavailable, std::string(why.message()), std::string(why.hint()));
}

}  // namespace

// ---- backends

constexpr Signature kAddBackend{"add_backend", {"known"}, 1};
py::object NixlAgent::add_backend(const Given& given) {
  py::dict known(given.object(0));
  Backend added{
      .known = known, .types = py::cast<std::vector<std::string>>(known["types"]), .kinds = {}};
  for (const auto& name : py::cast<std::vector<std::string>>(known["kinds"]))
    added.kinds.push_back(to_kind(name));
  backends_.push_back(std::move(added));
  return py::int_(backends_.size());
}

BackendNumber NixlAgent::number_of_backend(py::handle handle) const {
  const std::uint64_t number = handle_number(handle);
  if (number == 0 || number > backends_.size()) no_such("backend", number);
  return static_cast<BackendNumber>(number);
}

constexpr Signature kBackendOf{"backend_of", {"handle"}, 1};
py::object NixlAgent::backend_of(const Given& given) {
  return backend(number_of_backend(given[0])).known;
}

constexpr Signature kTypesOf{"types_of", {"backends"}, 1};
py::object NixlAgent::types_of(const Given& given) {
  return py::cast(given.has(0) ? types_of(given.object(0)) : std::vector<std::string>());
}

std::vector<std::string> NixlAgent::types_of(const py::object& backends) const {
  std::vector<std::string> all;
  for (const py::handle handle : backends) {
    for (const std::string& type : backend(number_of_backend(handle)).types)
      if (std::ranges::find(all, type) == all.end()) all.push_back(type);
  }
  return all;
}

std::vector<BackendNumber> NixlAgent::takers(const Given& given, std::size_t backends,
                                             MemoryKind kind) const {
  std::vector<BackendNumber> all;
  if (given.has(backends)) {
    for (const py::handle handle : given.object(backends)) {
      const BackendNumber number = number_of_backend(handle);
      if (std::ranges::find(all, number) == all.end()) all.push_back(number);
    }
    return all;
  }
  for (BackendNumber number = 1; number <= backends_.size(); ++number) {
    const std::vector<MemoryKind>& kinds = backend(number).kinds;
    if (std::ranges::find(kinds, kind) != kinds.end()) all.push_back(number);
  }
  return all;
}

// ---- memory

// With each of the backends that are named; else with those that take it, and that is at least one.
constexpr Signature kRegister{"registerMem", {"descs", "backends"}, 1};
py::object NixlAgent::register_list(const Given& given) {
  using Taker = std::pair<BackendNumber, std::vector<std::string>>;
  using Made = std::pair<BackendNumber, NixlMemory::Registrations>;
  const RegList& list = reg_list(given[0]);
  const MemoryKind kind = list.kind;
  const auto kept = list.items.get();
  std::vector<Taker> takers;
  for (const BackendNumber number : this->takers(given, 1, kind))
    takers.emplace_back(number, backend(number).types);
  const bool must_all = given.has(1);
  const ItemsByPlace items = by_place(kind, *kept);
  const std::vector<memory::SharedRegion> regions = regions_of(kind, items);
  if (regions.empty()) {
    agent_.check_open();
    return success_;
  }
  check(agent_.in_home([&](Home& home) -> Status {
    std::vector<Made> made;
    Status refusal = no_taker(kind);
    for (Taker& taker : takers) {
      auto with = home.node->agent().register_regions(
          regions, {.backends = std::move(taker.second), .any_of_named = true});
      if (with.ok())
        made.emplace_back(taker.first, *std::move(with));
      else if (refusal = as_refusal(with.status()); must_all)
        return refusal;  // what was made goes with `made`
    }
    if (made.empty()) return refusal;
    const std::vector<Descriptor> places = places_of(items);
    for (auto& [number, with] : made) home.nixl_memory.add(number, kind, places, std::move(with));
    return {};
  }));
  return success_;
}

// Exact matches only; when one is missing, nothing is taken back. From each of the backends that
// are named, and the others keep it; else from all that have it.
constexpr Signature kDeregister{"deregisterMem", {"descs", "backends"}, 1};
py::object NixlAgent::deregister_list(const Given& given) {
  using Wanted = NixlMemory::Wanted;
  const RegList& list = reg_list(given[0]);
  const MemoryKind kind = list.kind;
  const auto items = list.items.get();
  const std::vector<BackendNumber> from = takers(given, 1, kind);
  const Wanted wanted = given.has(1) ? Wanted::of_each_backend : Wanted::of_any_backend;
  check(agent_.in_home([&](Home& home) -> Status {
    const std::vector<Descriptor> places = places_of(by_place(kind, *items));
    TOWPATH_TRY(NixlMemory::Taken taken, home.nixl_memory.take(kind, places, from, wanted));
    Status released = home.node->agent().release(taken.registrations);
    // A peer may still move bytes of it: let go of here, each would be waited for once more, and
    // nobody could name it again.
    if (!released.ok()) home.nixl_memory.put_back(kind, places, std::move(taken));
    return released;
  }));
  return success_;
}

// A dict for each that is there, in NIXL's form, else None.
constexpr Signature kQuery{"queryMem", {"descs", "backend"}, 2};
py::object NixlAgent::query(const Given& given) {
  if (!PyLong_Check(given[1].ptr()))
    throw py::type_error(cat("backend must be one handle, not ", std::string(py::repr(given[1]))));
  const auto type = py::cast<std::string>(backend(number_of_backend(given[1])).known["type"]);
  const RegList& list = reg_list(given[0]);
  std::vector<RegionDescriptor> asked;
  for (const RegItem& item : *list.items) {
    asked.push_back(region_of(list.kind, item));
    if (!item.meta.empty()) asked.back().fd = -1;  // a path, whatever the device says
  }
  const auto found = agent_.ask([&](Agent& agent) { return agent.query(type, asked); });
  py::list out;
  for (const auto& one : found)
    out.append(one ? py::cast(nixl::nixl_answer(*one)) : py::object(py::none()));
  return out;
}

constexpr Signature kMetadata{"getLocalMD", {}, 0};
py::object NixlAgent::metadata(const Given&) {
  return to_python(agent_.ask([](Agent& agent) { return agent.metadata(); }));
}

void bind_nixl_registering(py::class_<NixlAgent>& type) {
  using Self = NixlAgent;
  add_method<Self, kAddBackend, &Self::add_backend>(type, "Its handle; `known` has its names.");
  add_method<Self, kBackendOf, &Self::backend_of>(type, "What was added.");
  // The overload that Python calls.
  constexpr py::object (Self::*kTypes)(const Given&) = &Self::types_of;
  add_method<Self, kTypesOf, kTypes>(type, "The types that serve these, each once.");
  add_method<Self, kRegister, &Self::register_list>(
      type, "All of a nixlRegDList, with each of `backends`, or nothing.");
  add_method<Self, kDeregister, &Self::deregister_list>(
      type, "All of a nixlRegDList, from each of `backends`, or nothing.");
  add_method<Self, kQuery, &Self::query>(type, "For each a dict, or None.");
  add_method<Self, kMetadata, &Self::metadata>(type, "What a peer loads to reach this memory.");
}

}  // namespace towpath::python
