#include "bindings/python/src/descriptors.h"

#include <towpath/core/format.h>

#include "bindings/python/src/convert.h"
#include "bindings/python/src/memory.h"
#include "bindings/python/src/nixl_lists.h"
#include "bindings/python/src/tables.h"

namespace towpath::python {
namespace {

struct Stretches {
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint64_t stride = 0;
  std::uint64_t count = 1;
  std::uint64_t device = 0;
};

std::unique_ptr<SharedList> make_list(const std::string& kind, const py::object& items) {
  DescriptorList list(to_kind(kind));
  if (!items.is_none()) list = unwrap(with_runs(list.kind(), to_descriptors(items)));
  return std::make_unique<SharedList>(std::move(list));
}

void add(SharedList& list, const Stretches& what) {
  check(list.change().add(StridedDescriptor{.address = what.address,
                                            .length = what.length,
                                            .stride = what.stride,
                                            .count = what.count,
                                            .device_id = what.device}));
}

py::tuple at(const SharedList& list, std::int64_t index) {
  const auto size = static_cast<std::int64_t>(list->size());
  if (index < 0) index += size;
  if (index < 0 || index >= size) throw py::index_error("past the end of the descriptors");
  const Descriptor found = list->at(static_cast<std::uint64_t>(index));
  return py::make_tuple(found.address, found.length, found.device_id);
}

py::list entries(const SharedList& list) {
  py::list out;
  for (const StridedDescriptor& entry : list->entries())
    out.append(
        py::make_tuple(entry.address, entry.length, entry.stride, entry.count, entry.device_id));
  return out;
}

py::tuple save(const SharedList& list) {
  return py::make_tuple(std::string(name_of(list->kind())), entries(list));
}

std::unique_ptr<SharedList> restore(const py::tuple& state) {
  auto list = make_list(py::cast<std::string>(state[0]), py::none());
  for (const py::handle entry : py::cast<py::list>(state[1])) {
    const auto numbers = py::cast<py::tuple>(entry);
    add(*list, {.address = py::cast<std::uint64_t>(numbers[0]),
                .length = py::cast<std::uint64_t>(numbers[1]),
                .stride = py::cast<std::uint64_t>(numbers[2]),
                .count = py::cast<std::uint64_t>(numbers[3]),
                .device = py::cast<std::uint64_t>(numbers[4])});
  }
  return list;
}

std::string describe(const SharedList& list) {
  return cat("<towpath.DescriptorList ", name_of(list->kind()), ": ", list->size(), " extents in ",
             list->entries().size(), " entries, ", list->total_bytes(), " bytes>");
}

}  // namespace

std::shared_ptr<const DescriptorList> to_list(py::handle source) {
  if (py::isinstance<SharedList>(source)) return py::cast<const SharedList&>(source).get();
  if (py::isinstance<XferList>(source)) {
    const auto& list = py::cast<const XferList&>(source);
    return std::make_shared<DescriptorList>(unwrap(with_runs(list.kind, *list.items)));
  }
  if (py::isinstance<PyRegistration>(source)) {
    const RegionDescriptor& region = py::cast<const PyRegistration&>(source).region();
    auto list = std::make_shared<DescriptorList>(region.kind);
    check(list->add(Descriptor{region.address, region.length, region.device_id}));
    return list;
  }
  throw py::type_error("expected a DescriptorList, or a Registration for all of its bytes");
}

void bind_descriptors(py::module_& module) {
  py::class_<SharedList>(module, "DescriptorList",
                         "An ordered list of extents of memory, all of one kind.")
      .def(py::init(&make_list), py::arg("kind") = "system", py::arg("items") = py::none())
      .def(
          "add",
          [](SharedList& self, std::uint64_t address, std::uint64_t length, std::uint64_t stride,
             std::uint64_t count, std::uint64_t device) {
            add(self, {address, length, stride, count, device});
          },
          "Appends `count` extents of `length` bytes, `stride` bytes apart.", py::arg("address"),
          py::arg("length"), py::kw_only(), py::arg("stride") = 0, py::arg("count") = 1,
          py::arg("device") = 0)
      .def("clear", [](SharedList& self) { self.change().clear(); })
      .def("__len__", [](const SharedList& self) { return self->size(); })
      .def("__getitem__", &at)
      .def("entries", &entries, "Tuples (address, length, stride, count, device).")
      .def_property_readonly(
          "kind", [](const SharedList& self) { return std::string(name_of(self->kind())); })
      .def_property_readonly("total_bytes",
                             [](const SharedList& self) { return self->total_bytes(); })
      .def("__eq__",
           [](const SharedList& self, const py::object& other) -> py::object {
             if (!py::isinstance<SharedList>(other))
               return py::reinterpret_borrow<py::object>(Py_NotImplemented);
             return py::bool_(*self == *py::cast<const SharedList&>(other));
           })
      .def("__repr__", &describe)
      .def(py::pickle(&save, &restore));
}

}  // namespace towpath::python
