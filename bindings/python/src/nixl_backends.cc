#include "bindings/python/src/nixl_backends.h"

#include <map>
#include <optional>
#include <utility>

#include <pybind11/stl.h>

#include <towpath/compat/nixl/params.h>

namespace towpath::python {
namespace {

py::list names_of(const std::vector<MemoryKind>& kinds) {
  py::list names;
  for (const MemoryKind kind : kinds) names.append(std::string(name_of(kind)));
  return names;
}

py::dict describe(const nixl::NixlBackend& backend, const std::vector<MemoryKind>& kinds) {
  return py::dict(py::arg("name") = backend.name, py::arg("type") = backend.type,
                  py::arg("types") = backend.types, py::arg("params") = backend.params,
                  py::arg("kinds") = names_of(kinds));
}

/// What a plug-in of this name would be created with, and takes.
py::dict plugin(const PyAgent& self, const Name& name) {
  struct Plugin {
    backend::Params params;
    std::vector<MemoryKind> kinds;
  };
  const auto found = unwrap(self.in_home([&](Home& home) -> Result<Plugin> {
    TOWPATH_TRY(const backend::BackendType* const type, home.nixl->plugin(name.value));
    TOWPATH_TRY(auto kinds, home.nixl->plugin_kinds(name.value));
    return Plugin{nixl::nixl_defaults(*type), std::move(kinds)};
  }));
  return py::dict(py::arg("params") = found.params, py::arg("kinds") = names_of(found.kinds));
}

py::dict create(const PyAgent& self, const Name& name,
                const std::map<std::string, std::string>& params) {
  using Made = std::pair<nixl::NixlBackend, std::vector<MemoryKind>>;
  const auto made = unwrap(self.in_home([&](Home& home) -> Result<Made> {
    agent::Agent& agent = home.node->agent();
    TOWPATH_TRY(const nixl::NixlBackend* const created,
                home.nixl->create(agent, name.value, params));
    TOWPATH_TRY(auto kinds, nixl::kinds_of(agent, *created));
    return Made(*created, std::move(kinds));
  }));
  return describe(made.first, made.second);
}

/// None: of none of these.
py::object served_by(const PyAgent& self, const std::string& type,
                     const std::vector<std::string>& asked) {
  const auto name = self.in_home([&](Home& home) -> std::optional<std::string> {
    const nixl::NixlBackend* const found = home.nixl->served_by(type, asked);
    if (found == nullptr) return std::nullopt;
    return found->name;
  });
  return name ? py::object(py::str(*name)) : py::object(py::none());
}

}  // namespace

void bind_nixl_backends(py::class_<PyAgent>& type) {
  type.def("nixl_plugins",
           [](const PyAgent& self) {
             return self.in_home([](Home& home) { return home.nixl->plugins(); });
           })
      .def("nixl_plugin", &plugin, py::arg("name"))
      .def("create_nixl_backend", &create,
           "Creates all that serves a backend of NIXL: UCX brings shared memory.", py::arg("name"),
           py::arg("params"))
      .def("nixl_backend_of", &served_by, "Which of `asked` (none: of all) the type serves.",
           py::arg("type"), py::arg("asked"));
}

}  // namespace towpath::python
