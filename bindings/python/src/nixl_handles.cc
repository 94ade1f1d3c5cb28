#include "bindings/python/src/nixl_handles.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include <structmember.h>

#include <towpath/core/format.h>

#include "bindings/python/src/convert.h"
#include "bindings/python/src/gil.h"
#include "bindings/python/src/nixl_calls.h"

namespace towpath::python {
namespace {

struct HandleObject {
  PyObject_HEAD PyObject* agent;  // whose number it is; null: released
  PyObject* number;               // null: released
  PyObject* release_method;
  PyObject* drop_method;  // when nobody has it any more
  PyObject* weak_references;
  std::uint64_t last_number;
};

HandleObject& of(PyObject* self) noexcept { return *reinterpret_cast<HandleObject*>(self); }

void forget(PyObject* self) {
  (void)py::reinterpret_steal<py::object>(std::exchange(of(self).agent, nullptr));
  (void)py::reinterpret_steal<py::object>(std::exchange(of(self).number, nullptr));
}

void call(PyObject* method, const py::object& agent, const py::object& number) {
  PyObject* const arguments[] = {agent.ptr(), number.ptr()};
  const auto done = py::reinterpret_steal<py::object>(
      PyObject_VectorcallMethod(method, arguments, std::size(arguments), nullptr));
  if (!done) throw py::error_already_set();
}

/// What cannot be released yet stays.
void release(PyObject* self) {
  const auto agent = py::reinterpret_borrow<py::object>(of(self).agent);
  const auto number = py::reinterpret_borrow<py::object>(of(self).number);
  if (!agent) return;
  call(of(self).release_method, agent, number);
  forget(self);
}

// As at the end of any other object's life: what goes wrong is reported, and stops nobody.
void drop(PyObject* self) {
  const auto agent = py::reinterpret_borrow<py::object>(of(self).agent);
  const auto number = py::reinterpret_borrow<py::object>(of(self).number);
  if (!agent) return;
  forget(self);
  const auto done = py::reinterpret_steal<py::object>(guarded([&]() -> py::object {
    call(of(self).drop_method, agent, number);
    return py::none();
  }));
  if (done) return;
  // The agent may have lost its methods to Python's end, and takes what is left of it along.
  if (is_finalizing()) return PyErr_Clear();
  PyErr_WriteUnraisable(reinterpret_cast<PyObject*>(Py_TYPE(self)));
}

py::object number_of(PyObject* self) {
  if (PyObject* const number = of(self).number) return py::reinterpret_borrow<py::object>(number);
  raise(error(Code::invalid_argument, cat("this ", Py_TYPE(self)->tp_name, " was released"),
              "make another one"));
}

// ---- what Python calls

/// type(agent, handle), for a type whose objects are released by `Release`.
template <const Signature& Named, const char* Release, const char* Drop>
PyObject* make(PyObject* type, PyObject* const* arguments, std::size_t count, PyObject* names) {
  static PyObject* const kRelease = PyUnicode_InternFromString(Release);
  static PyObject* const kDrop = PyUnicode_InternFromString(Drop);
  return guarded([&] {
    const Given given(Named, {type, arguments, PyVectorcall_NARGS(count), names});
    auto* const kind = reinterpret_cast<PyTypeObject*>(type);
    auto self = py::reinterpret_steal<py::object>(kind->tp_alloc(kind, 0));
    if (!self) throw py::error_already_set();
    HandleObject& made = of(self.ptr());
    made.agent = given[0].inc_ref().ptr();
    made.number = given[1].inc_ref().ptr();
    made.release_method = kRelease;
    made.drop_method = kDrop;
    made.last_number = PyLong_AsUnsignedLongLongMask(given[1].ptr());
    return self;
  });
}

PyObject* release_now(PyObject* self, PyObject*) {
  return guarded([&]() -> py::object {
    release(self);
    return py::none();
  });
}

PyObject* as_int(PyObject* self) {
  return guarded([&] { return number_of(self); });
}

/// "nixl_xfer_handle(0x10002, released=False)". The number stays with one that was released.
PyObject* text_of(PyObject* self) {
  return guarded([&]() -> py::object {
    const HandleObject& handle = of(self);
    const std::string_view name = Py_TYPE(self)->tp_name;
    const std::string text = cat(name.substr(name.rfind('.') + 1), "(", hex(handle.last_number),
                                 ", released=", handle.agent == nullptr ? "True" : "False", ")");
    return py::str(text);
  });
}

PyObject* handle(PyObject* self, void*) {
  PyObject* const number = of(self).number;
  return py::handle(number == nullptr ? Py_None : number).inc_ref().ptr();
}

// Programs of NIXL's hand these to the bindings.
PyObject* last_handle(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(of(self).last_number);
}
PyObject* is_released(PyObject* self, void*) { return PyBool_FromLong(of(self).agent == nullptr); }
PyObject* agent(PyObject* self, void*) {
  return py::handle(of(self).agent == nullptr ? Py_None : of(self).agent).inc_ref().ptr();
}

int visit(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(of(self).agent);
  Py_VISIT(Py_TYPE(self));
  return 0;
}

void end(PyObject* self) {
  PyObject_GC_UnTrack(self);
  if (of(self).weak_references != nullptr) PyObject_ClearWeakRefs(self);
  {
    const py::error_scope whatever_is_raised_now;
    drop(self);
  }
  PyTypeObject* const type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

int break_cycle(PyObject* self) {
  drop(self);
  return 0;
}

// ---- the types

PyMethodDef methods[] = {
    {"release", &release_now, METH_NOARGS, "Now; again is harmless."},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef properties[] = {
    {"handle", &handle, nullptr, "The integer; None once it is released.", nullptr},
    {"_handle", &last_handle, nullptr, "The integer, also once it is released.", nullptr},
    {"_released", &is_released, nullptr, nullptr, nullptr},
    {"_agent", &agent, nullptr, "The nixlAgent; None once it is released.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(HandleObject, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

constexpr Signature kTransferHandle{"nixl_xfer_handle", {"agent", "value"}, 2};
constexpr char kTransferRelease[] = "releaseXferReq";
constexpr char kTransferDrop[] = "dropXferReq";
constexpr Signature kListHandle{"nixl_prepped_dlist_handle", {"agent", "value"}, 2};
constexpr char kListRelease[] = "releasedDlistH";

template <typename Function>
void* slot(Function* function) {
  return reinterpret_cast<void*>(function);
}

template <const Signature& Named, const char* Release, const char* Drop>
void bind(py::module_& module, const char* says) {
  PyType_Slot slots[] = {
      {Py_tp_doc, const_cast<char*>(says)},
      {Py_tp_methods, methods},
      {Py_tp_getset, properties},
      {Py_tp_members, members},
      {Py_tp_dealloc, slot(&end)},
      {Py_tp_traverse, slot(&visit)},
      {Py_tp_clear, slot(&break_cycle)},
      {Py_nb_int, slot(&as_int)},
      {Py_nb_index, slot(&as_int)},
      {Py_tp_repr, slot(&text_of)},
      {0, nullptr},
  };
  // Kept: until Python 3.11 the type does not copy it.
  static const std::string* const kName = new std::string(cat("towpath._towpath.", Named.name));
  PyType_Spec spec{kName->c_str(), sizeof(HandleObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                   slots};
  const auto type = py::reinterpret_steal<py::object>(PyType_FromSpec(&spec));
  if (!type) throw py::error_already_set();
  reinterpret_cast<PyTypeObject*>(type.ptr())->tp_vectorcall = &make<Named, Release, Drop>;
  module.attr(Named.name) = type;
}

}  // namespace

std::uint64_t handle_number(py::handle handle) {
  // Both types, which nothing can be derived from, and no others end by end().
  if (Py_TYPE(handle.ptr())->tp_dealloc == &end) return to_u64(number_of(handle.ptr()).ptr());
  return to_u64(handle.ptr());
}

void bind_nixl_handles(py::module_& module) {
  bind<kTransferHandle, kTransferRelease, kTransferDrop>(
      module, "A transfer. Releasing one that is under way cancels it.");
  bind<kListHandle, kListRelease, kListRelease>(module, "One side of transfers, looked up once.");
}

}  // namespace towpath::python
