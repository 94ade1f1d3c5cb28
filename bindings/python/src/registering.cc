#include "bindings/python/src/registering.h"

#include <pybind11/stl.h>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>

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

RegionDescriptor region_of(const Place& place) {
  return checked({.kind = to_kind(place.kind),
                  .address = place.address,
                  .length = place.length,
                  .device_id = place.device,
                  .fd = place.fd,
                  .key = place.key});
}

std::unique_ptr<PyRegistration> register_address(const PyAgent& self, const Place& place,
                                                 const memory::RegisterOptions& options,
                                                 py::object owner) {
  memory::SharedRegion region = std::make_shared<HeldRegion>(held(region_of(place), owner));
  return register_region(self, std::move(region), std::move(owner), options);
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

RegionDescriptor checked(RegionDescriptor region) {
  if (!checked_add(region.address, region.length))
    raise(error(Code::out_of_range, cat(region.length, " bytes from ", hex(region.address),
                                        " go past the end of 64-bit space")));
  return region;
}

HeldRegion held(RegionDescriptor region, const py::object& owner) {
  if (region.length == 0)
    raise(error(Code::invalid_argument, "no bytes to register", "register what is not empty"));
  return {std::move(region), owner.is_none() ? nullptr : keep_alive(keeper_of(owner))};
}

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
      .def("query", &query, py::arg("backend"), py::arg("places"));
}

}  // namespace towpath::python
