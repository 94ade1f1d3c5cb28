#include "bindings/python/src/nixl_backends.h"

#include <map>

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
  const auto home = self.home();
  const backend::BackendType* const type = unwrap(home->nixl->plugin(name.value));
  return py::dict(py::arg("params") = nixl::nixl_defaults(*type),
                  py::arg("kinds") = names_of(unwrap(home->nixl->plugin_kinds(name.value))));
}

py::dict create(const PyAgent& self, const Name& name,
                const std::map<std::string, std::string>& params) {
  const auto home = self.home();
  agent::Agent& agent = home->node->agent();
  const auto* const made =
      unwrap(unlocked([&] { return home->nixl->create(agent, name.value, params); }));
  return describe(*made, unwrap(nixl::kinds_of(agent, *made)));
}

/// None: of none of these.
py::object served_by(const PyAgent& self, const std::string& type,
                     const std::vector<std::string>& asked) {
  const auto* const found = self.home()->nixl->served_by(type, asked);
  return found == nullptr ? py::object(py::none()) : py::str(found->name);
}

}  // namespace

void bind_nixl_backends(py::class_<PyAgent>& type) {
  type.def("nixl_plugins", [](const PyAgent& self) { return self.home()->nixl->plugins(); })
      .def("nixl_plugin", &plugin, py::arg("name"))
      .def("create_nixl_backend", &create,
           "Creates all that serves a backend of NIXL: UCX brings shared memory.", py::arg("name"),
           py::arg("params"))
      .def("nixl_backend_of", &served_by, "Which of `asked` (none: of all) the type serves.",
           py::arg("type"), py::arg("asked"));
}

}  // namespace towpath::python
