// Methods of towpath.nixl that engines call again and again, without pybind11 between: it looks
// up overloads, and types by their names, at each call, and that took longer than the small
// transfers themselves.
//
//   static constexpr Signature kPost{"postXferReq", {"handle", "notif_msg"}, 1};
//   add_method<kPost, &NixlAgent::post>(type, "...");
//
// Failures of the library leave as NIXL's exceptions.
// Thread: with the interpreter's lock.
#pragma once

#include <array>
#include <cstddef>
#include <exception>
#include <type_traits>
#include <utility>

#include <pybind11/pybind11.h>

namespace towpath::python {

namespace py = pybind11;

inline constexpr std::size_t kMostParameters = 8;

/// Parameters are given by position or by name, the first `required` of them always.
struct Signature {
  const char* name;
  std::array<const char*, kMostParameters> parameters;  ///< null behind the last
  std::size_t required;
};

/// The arguments of one call as Python hands them over.
struct Call {
  PyObject* self;
  PyObject* const* arguments;
  Py_ssize_t count;  ///< by position
  PyObject* names;   ///< a tuple, of those that follow; null: none

  bool has_name(const char* parameter) const;
};

/// Each argument at the place of its parameter. Borrowed for the call.
class Given {
 public:
  /// Raises TypeError: too many, too few, unknown names, one twice.
  Given(const Signature& signature, const Call& call);

  py::handle self() const noexcept { return self_; }
  /// Null: not given.
  py::handle operator[](std::size_t parameter) const noexcept { return values_[parameter]; }
  py::object object(std::size_t parameter) const {
    return py::reinterpret_borrow<py::object>(values_[parameter]);
  }
  /// Given, and neither None nor empty.
  bool has(std::size_t parameter) const;

 private:
  void take_named(const Signature& signature, PyObject* name, PyObject* value);

  PyObject* self_;
  std::array<PyObject*, kMostParameters> values_{};
};

/// Says to Python what the exception says that is being handled. Leaves by that of a thread that
/// Python unwinds.
void report_python();

/// The value behind an instance of a class of pybind11, or of one that was derived in Python. Null:
/// its constructor was never called.
template <typename T>
T* value_of(PyObject* self) noexcept {
  return reinterpret_cast<py::detail::instance*>(self)->get_value_and_holder().value_ptr<T>();
}

template <typename Work>
PyObject* guarded(Work&& work) {
  try {
    return std::forward<Work>(work)().release().ptr();
  } catch (...) {
    report_python();
    return nullptr;
  }
}

/// `Method`: py::object (T::*)(const Given&); or (const Call&), of one that has several signatures
/// and reads its arguments by the one that they fit.
template <typename T, const Signature& Named, auto Method>
void add_method(py::class_<T>& type, const char* says) {
  constexpr auto kCall = [](PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                            PyObject* names) {
    return guarded([&]() -> py::object {
      T* const value = value_of<T>(self);
      if (value == nullptr) throw py::type_error("its constructor was not called");
      const Call call{self, arguments, count, names};
      if constexpr (std::is_invocable_v<decltype(Method), T*, const Call&>)
        return (value->*Method)(call);
      else
        return (value->*Method)(Given(Named, call));
    });
  };
  constexpr _PyCFunctionFastWithKeywords kFunction = kCall;
  static PyMethodDef definition{
      Named.name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(kFunction)),
      METH_FASTCALL | METH_KEYWORDS, says};
  auto* const method = PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type.ptr()), &definition);
  if (method == nullptr) throw py::error_already_set();
  type.attr(Named.name) = py::reinterpret_steal<py::object>(method);
}

}  // namespace towpath::python
