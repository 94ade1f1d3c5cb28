#include "bindings/python/src/registering.h"

#include <algorithm>
#include <climits>

#include <pybind11/stl.h>

#include <towpath/compat/nixl/params.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>

#include "bindings/python/src/nixl_lists.h"

namespace towpath::python {
namespace {

using agent::Agent;

std::unique_ptr<PyRegistration> register_region(const PyAgent& self, memory::SharedRegion region,
                                                py::object memory,
                                                const memory::RegisterOptions& options) {
  auto registration = self.ask([&](Agent& agent) {
    // Moved on, so that only the agent holds the region when this call is over.
    return agent.register_region(std::move(region), options);
  });
  return std::make_unique<PyRegistration>(std::move(registration), std::move(memory));
}

std::unique_ptr<PyRegistration> register_object(const PyAgent& self, py::object memory,
                                                const std::string& kind,
                                                const std::vector<Name>& backends) {
  memory::SharedRegion region = to_region(memory, kind);
  return register_region(self, std::move(region), std::move(memory),
                         {.backends = to_strings(backends)});
}

struct Place {
  std::string kind;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint64_t device = 0;
  int fd = -1;
  std::string key;
};

/// Raises.
void check_end(const RegionDescriptor& region) {
  if (!checked_add(region.address, region.length))
    raise(error(Code::out_of_range, cat(region.length, " bytes from ", hex(region.address),
                                        " go past the end of 64-bit space")));
}

RegionDescriptor region_of(const Place& place) {
  RegionDescriptor region{.kind = to_kind(place.kind),
                          .address = place.address,
                          .length = place.length,
                          .device_id = place.device,
                          .fd = place.fd,
                          .key = place.key};
  check_end(region);
  return region;
}

/// Raises what makes no region of it.
HeldRegion held(RegionDescriptor region, const py::object& owner) {
  if (region.length == 0)
    raise(error(Code::invalid_argument, "no bytes to register", "register what is not empty"));
  return {std::move(region), owner.is_none() ? nullptr : keep_alive(keeper_of(owner))};
}

std::unique_ptr<PyRegistration> register_address(const PyAgent& self, const Place& place,
                                                 const memory::RegisterOptions& options,
                                                 py::object owner) {
  memory::SharedRegion region = std::make_shared<HeldRegion>(held(region_of(place), owner));
  return register_region(self, std::move(region), std::move(owner), options);
}

// ---- lists of towpath.nixl

/// As NIXL's users mean it: no length is all of a file or an object, and a small device of a file
/// is its descriptor.
RegionDescriptor region_of(MemoryKind kind, const RegItem& item) {
  constexpr std::uint64_t kWholeObject = INT64_MAX;
  const auto [address, length, device] = item.where;
  const bool has_size = kind == MemoryKind::system || kind == MemoryKind::device;
  const bool is_whole = !has_size && length == 0 && address < kWholeObject;
  const bool is_fd = kind == MemoryKind::disk && device <= INT_MAX;
  RegionDescriptor region{.kind = kind,
                          .address = address,
                          .length = is_whole ? kWholeObject - address : length,
                          .device_id = device,
                          .fd = is_fd ? static_cast<int>(device) : -1,
                          .key = item.meta};
  check_end(region);
  return region;
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

/// A backend of NIXL's by its handle, and the types that serve it, each in the others' place.
using NixlTaker = std::pair<NixlMemory::BackendNumber, std::vector<std::string>>;

Status no_taker(MemoryKind kind) {
  return error(Code::not_found, cat("no backend of this agent takes ", name_of(kind), " memory"),
               "create one that does before registering");
}

/// With each of `takers`; with those that take it, and that is at least one, unless `all_of_them`.
void register_nixl_list(const PyAgent& self, const RegList& list,
                        const std::vector<NixlTaker>& takers, bool all_of_them) {
  using Made = std::pair<NixlMemory::BackendNumber, NixlMemory::Registrations>;
  const auto kept = list.items.get();
  const ItemsByPlace items = by_place(list.kind, *kept);
  const std::vector<memory::SharedRegion> regions = regions_of(list.kind, items);
  if (regions.empty()) return self.check_open();
  check(self.in_home([&](Home& home) -> Status {
    std::vector<Made> made;
    Status refusal = no_taker(list.kind);
    for (const NixlTaker& taker : takers) {
      auto with = home.node->agent().register_regions(
          regions, {.backends = taker.second, .any_of_named = true});
      if (with.ok())
        made.emplace_back(taker.first, *std::move(with));
      else if (refusal = with.status(); all_of_them)
        return refusal;  // what was made goes with `made`
    }
    if (made.empty()) return refusal;
    const std::vector<Descriptor> places = places_of(items);
    for (auto& [backend, with] : made)
      home.nixl_memory.add(backend, list.kind, places, std::move(with));
    return {};
  }));
}

/// From each of `backends`; from those that have it, and that is at least one, unless
/// `all_of_them`.
void deregister_nixl_list(const PyAgent& self, const RegList& list,
                          const std::vector<NixlMemory::BackendNumber>& backends,
                          bool all_of_them) {
  using Wanted = NixlMemory::Wanted;
  const auto items = list.items.get();
  check(self.in_home([&](Home& home) -> Status {
    const std::vector<Descriptor> places = places_of(by_place(list.kind, *items));
    TOWPATH_TRY(
        NixlMemory::Taken taken,
        home.nixl_memory.take(list.kind, places, backends,
                              all_of_them ? Wanted::of_each_backend : Wanted::of_any_backend));
    Status released = home.node->agent().release(taken.registrations);
    // A peer may still move bytes of it: let go of here, each would be waited for once more, and
    // nobody could name it again.
    if (!released.ok()) home.nixl_memory.put_back(list.kind, places, std::move(taken));
    return released;
  }));
}

/// A dict for each that is there, in NIXL's form, else None.
py::list query_nixl_list(const PyAgent& self, const Name& backend, const RegList& list) {
  std::vector<RegionDescriptor> asked;
  for (const RegItem& item : *list.items) {
    asked.push_back(region_of(list.kind, item));
    if (!item.meta.empty()) asked.back().fd = -1;  // a path, whatever the device says
  }
  const auto found = self.ask([&](Agent& agent) { return agent.query(backend.value, asked); });
  py::list out;
  for (const auto& one : found)
    out.append(one ? py::cast(nixl::nixl_answer(*one)) : py::object(py::none()));
  return out;
}

/// `places`: tuples (kind, address, length, device, fd, key).
py::list query(const PyAgent& self, const Name& backend, const py::iterable& places) {
  std::vector<RegionDescriptor> descriptors;
  for (const py::handle item : places) {
    const auto tuple = py::cast<py::tuple>(item);
    descriptors.push_back(region_of({py::cast<std::string>(tuple[0]), to_u64(tuple[1].ptr()),
                                     to_u64(tuple[2].ptr()), to_u64(tuple[3].ptr()),
                                     py::cast<int>(tuple[4]), py::cast<Name>(tuple[5]).value}));
  }
  const auto found =
      self.ask([&](Agent& agent) { return agent.query(backend.value, descriptors); });
  py::list out;
  for (const auto& one : found) out.append(one ? py::cast(*one) : py::object(py::none()));
  return out;
}

}  // namespace

void bind_registering(py::class_<PyAgent>& type) {
  type.def("register", &register_object, "Makes memory known; it is kept alive meanwhile.",
           py::arg("memory"), py::kw_only(), py::arg("kind") = "",
           py::arg("backends") = std::vector<Name>())
      .def(
          "register_address",
          [](const PyAgent& self, std::uint64_t address, std::uint64_t size_bytes,
             const std::string& kind, std::uint64_t device, int fd, const Name& key,
             const std::vector<Name>& backends, py::object owner, bool any_of_named) {
            return register_address(
                self, {kind, address, size_bytes, device, fd, key.value},
                {.backends = to_strings(backends), .any_of_named = any_of_named}, std::move(owner));
          },
          "The same for bare addresses; `owner` is kept alive. `any_of_named`: one of `backends` "
          "is "
          "enough.",
          py::arg("address"), py::arg("size_bytes"), py::kw_only(), py::arg("kind") = "system",
          py::arg("device") = 0, py::arg("fd") = -1, py::arg("key") = Name(),
          py::arg("backends") = std::vector<Name>(), py::arg("owner") = py::none(),
          py::arg("any_of_named") = false)
      .def("register_nixl_list", &register_nixl_list,
           "All of a nixlRegDList with each backend, tuples (handle, types), or nothing.",
           py::arg("list"), py::arg("backends"), py::arg("all_of_them"))
      .def("deregister_nixl_list", &deregister_nixl_list,
           "All of a nixlRegDList from backends, by their handles, or nothing.", py::arg("list"),
           py::arg("backends"), py::arg("all_of_them"))
      .def("query_nixl_list", &query_nixl_list, py::arg("backend"), py::arg("list"))
      .def("query", &query, py::arg("backend"), py::arg("places"));
}

}  // namespace towpath::python
