#include "bindings/python/src/nixl_lists.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <towpath/core/format.h>

#include "bindings/python/src/convert.h"
#include "bindings/python/src/memory.h"
#include "bindings/python/src/nixl_calls.h"
#include "bindings/python/src/tables.h"

namespace towpath::python {
namespace {

// The names are NIXL's, and so is the order of its numbers (nixl_mem_t).
constexpr MemoryKind kSegments[] = {MemoryKind::system, MemoryKind::device, MemoryKind::block,
                                    MemoryKind::object, MemoryKind::disk};

int segment_of_kind(MemoryKind kind) {
  const auto* const found = std::ranges::find(kSegments, kind);
  return found == std::end(kSegments) ? 0 : static_cast<int>(found - std::begin(kSegments));
}

/// As NIXL's users know it (towpath/nixl/_bindings.py).
py::object segment_to_python(MemoryKind kind) {
  const py::object names = py::module_::import("towpath.nixl._bindings").attr("nixl_mem_t");
  return names(segment_of_kind(kind));
}

/// A tuple (address, length, device, something).
py::tuple four(py::handle source, const char* what) {
  if (!PyTuple_Check(source.ptr()) || PyTuple_GET_SIZE(source.ptr()) != 4)
    throw py::type_error(cat("expected a tuple (address, length, device, ", what, ")"));
  return py::reinterpret_borrow<py::tuple>(source);
}

Descriptor first_three(const py::tuple& tuple) {
  const auto number = [&](Py_ssize_t i) { return to_u64(PyTuple_GET_ITEM(tuple.ptr(), i)); };
  return {number(0), number(1), number(2)};
}

void read(py::handle source, Descriptor& item) { item = to_descriptor(source); }
void read(py::handle source, RegItem& item) {
  const py::tuple tuple = four(source, "meta");
  item = {first_three(tuple), py::cast<Name>(tuple[3]).value};
}
void read(py::handle source, RemoteItem& item) {
  const py::tuple tuple = four(source, "agent");
  item = {first_three(tuple), py::cast<Name>(tuple[3]).value};
}

py::tuple write(const Descriptor& item) {
  return py::make_tuple(item.address, item.length, item.device_id);
}
py::tuple write(const RegItem& item) {
  return py::make_tuple(item.where.address, item.where.length, item.where.device_id,
                        to_python(as_bytes(item.meta)));
}
py::tuple write(const RemoteItem& item) {
  return py::make_tuple(item.where.address, item.where.length, item.where.device_id,
                        name_to_python(item.agent));
}

void take(std::vector<Descriptor> table, std::vector<Descriptor>& into) { into = std::move(table); }
template <typename Item>
void take(const std::vector<Descriptor>& table, std::vector<Item>& into) {
  into.resize(table.size());
  for (std::size_t i = 0; i < table.size(); ++i) into[i].where = table[i];
}

/// `items`: a number of empty descriptors, a table of addresses, lengths and devices, or tuples.
template <typename List>
std::unique_ptr<List> make(const py::object& segment, const py::object& items) {
  auto list = std::make_unique<List>();
  list->kind = kind_of_segment(segment);
  auto& into = list->items.change();
  if (PyLong_Check(items.ptr())) {
    into.resize(to_u64(items.ptr()));
  } else if (auto table = descriptors_of_buffer(items)) {
    take(*std::move(table), into);
  } else {
    const Sequence sequence(items, "descriptors are tuples, or a table of them");
    into.reserve(sequence.size());
    for (std::size_t i = 0; i < sequence.size(); ++i) read(sequence[i], into.emplace_back());
  }
  return list;
}

template <typename List>
std::size_t position(const List& list, std::int64_t index) {
  const auto size = static_cast<std::int64_t>(list.items->size());
  if (index < 0) index += size;
  if (index < 0 || index >= size) throw py::index_error(cat("descriptor ", index, " of ", size));
  return static_cast<std::size_t>(index);
}

template <typename List>
void append(List& list, const py::object& source) {
  typename List::Item item;
  read(source, item);
  list.items.change().push_back(std::move(item));
}

// Read first: that may run code which changes the list.
template <typename List>
void replace(List& list, std::int64_t index, const py::object& source) {
  typename List::Item item;
  read(source, item);
  list.items.change()[position(list, index)] = std::move(item);
}

// What goes stays until the list is whole again: the end of an owner may run code which changes it.
template <typename List>
void remove(List& list, std::int64_t index) {
  auto& items = list.items.change();
  const auto place = items.begin() + static_cast<std::ptrdiff_t>(position(list, index));
  [[maybe_unused]] const typename List::Item gone = std::move(*place);
  items.erase(place);
}

template <typename List>
void clear(List& list) {
  [[maybe_unused]] const std::vector<typename List::Item> gone =
      std::exchange(list.items.change(), {});
}

// What a registration list says besides does not count, as in NIXL.
bool is_sought(const RegItem& item, const RegItem& sought) { return item.where == sought.where; }
template <typename Item>
bool is_sought(const Item& item, const Item& sought) {
  return item == sought;
}

template <typename List>
std::size_t index_of(const List& list, const py::object& source) {
  typename List::Item sought;
  read(source, sought);
  const auto found = std::ranges::find_if(
      *list.items, [&](const typename List::Item& item) { return is_sought(item, sought); });
  if (found == list.items->end()) {
    const py::module_ names = py::module_::import("towpath.nixl._status");
    PyErr_SetString(names.attr("nixlNotFoundError").ptr(),
                    "NIXL_ERR_NOT_FOUND: no such descriptor in the list");
    throw py::error_already_set();
  }
  return static_cast<std::size_t>(found - list.items->begin());
}

template <typename List>
py::tuple save(const List& list) {
  py::list items;
  for (const auto& item : *list.items) items.append(write(item));
  return py::make_tuple(segment_of_kind(list.kind), items);
}

template <typename List>
std::unique_ptr<List> restore(const py::tuple& state) {
  return make<List>(state[0], state[1]);
}

template <typename List>
std::string describe(const List& list, const char* name) {
  constexpr std::size_t kShown = 8;
  std::string text = cat("<", name, " ", name_of(list.kind), ", ", list.items->size(), ":");
  for (std::size_t i = 0; i < std::min(kShown, list.items->size()); ++i)
    text += cat(" ", std::string(py::str(write((*list.items)[i]))));
  return text + (list.items->size() > kShown ? " ...>" : ">");
}

template <typename List>
py::class_<List> bind(py::module_& module, const char* name, const char* says) {
  return py::class_<List>(module, name, says)
      .def(py::init(&make<List>), py::arg("type"), py::arg("items") = 0)
      .def(py::init(&make<List>), py::arg("type"), py::arg("init_size"))
      .def(py::init(&make<List>), py::arg("type"), py::arg("descs"))
      .def("getType", [](const List& self) { return segment_to_python(self.kind); })
      .def_property_readonly("kind",
                             [](const List& self) { return std::string(name_of(self.kind)); })
      .def("descCount", [](const List& self) { return self.items->size(); })
      .def("isEmpty", [](const List& self) { return self.items->empty(); })
      .def("__len__", [](const List& self) { return self.items->size(); })
      // NIXL's lists have no length: `if descs:` asks there whether there is one.
      .def("__bool__", [](const List&) { return true; })
      .def("__getitem__",
           [](const List& self, std::int64_t index) {
             return write((*self.items)[position(self, index)]);
           })
      .def("__setitem__", &replace<List>)
      .def("addDesc", &append<List>, py::arg("desc"))
      .def("append", &append<List>, py::arg("desc"))
      .def("remDesc", &remove<List>, py::arg("index"))
      .def("index", &index_of<List>, py::arg("desc"))
      .def("clear", &clear<List>)
      .def("__eq__",
           [](const List& self, const py::object& other) -> py::object {
             if (!py::isinstance<List>(other))
               return py::reinterpret_borrow<py::object>(Py_NotImplemented);
             const auto& that = py::cast<const List&>(other);
             return py::bool_(self.kind == that.kind && *self.items == *that.items);
           })
      .def("__repr__", [name](const List& self) { return describe(self, name); })
      .def("print", [name](const List& self) { py::print(describe(self, name)); })
      .def(py::pickle(&save<List>, &restore<List>));
}

/// What of an object would be registered, as NIXL's users say it.
py::tuple memory_facts(const py::object& object) {
  const RegionDescriptor self = describe_memory(object);
  return py::make_tuple(segment_to_python(self.kind), self.address, self.length, self.device_id);
}

}  // namespace

MemoryKind kind_of_segment(py::handle segment) {
  const std::uint64_t number = to_u64(segment.ptr());
  if (number >= std::size(kSegments)) throw py::value_error(cat("no memory type ", number));
  return kSegments[number];
}

// By the type itself: pybind11 looks its types up by their names, twice for each question, and that
// is a tenth of what a short transfer takes to make.
template <typename List>
const List* as_list(py::handle source) {
  static auto* const kType = reinterpret_cast<PyTypeObject*>(py::type::of<List>().release().ptr());
  if (PyObject_TypeCheck(source.ptr(), kType) == 0) return nullptr;
  return value_of<List>(source.ptr());
}
template const XferList* as_list(py::handle source);
template const RegList* as_list(py::handle source);

void bind_nixl_lists(py::module_& module) {
  bind<XferList>(module, "nixlXferDList", "Tuples (address, length, device) of one memory type.");
  bind<RegList>(module, "nixlRegDList", "Tuples (address, length, device, meta).")
      .def(
          "own",
          [](RegList& self, std::int64_t index, py::object owner) {
            self.items.change()[position(self, index)].owner = std::move(owner);
          },
          "Keeps `owner` alive while descriptor `index` is registered.", py::arg("index"),
          py::arg("owner"))
      .def("owner", [](const RegList& self,
                       std::int64_t index) { return (*self.items)[position(self, index)].owner; })
      .def("trim", [](const RegList& self) {
        auto list = std::make_unique<XferList>();
        list->kind = self.kind;
        auto& into = list->items.change();
        into.reserve(self.items->size());
        for (const RegItem& item : *self.items) into.push_back(item.where);
        return list;
      });
  bind<RemoteList>(module, "nixlRemoteDList", "Tuples (address, length, device, agent).");
  module.def("memory_facts", &memory_facts, py::arg("memory"));
}

}  // namespace towpath::python
