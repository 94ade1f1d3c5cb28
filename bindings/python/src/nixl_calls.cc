#include "bindings/python/src/nixl_calls.h"

#include <algorithm>
#include <new>

#include <towpath/core/format.h>

namespace towpath::python {
namespace {

/// None: it is no failure of the library; or Python ends, and has no modules any more.
py::object as_nixl(const py::error_already_set& raised) {
  try {
    const py::module_ errors = py::module_::import("towpath.errors");
    if (!raised.matches(errors.attr("Error"))) return py::none();
    return py::module_::import("towpath.nixl._status").attr("caused_by")(raised.value());
  } catch (const py::error_already_set&) {
    return py::none();
  }
}

/// NIXL's exception for a failure of the library, the failure its cause; others as they are.
void raise_as_nixl(py::error_already_set& raised) {
  const py::object reported = as_nixl(raised);
  if (reported.is_none()) return raised.restore();
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(reported.ptr())), reported.ptr());
}

}  // namespace

bool Call::has_name(const char* parameter) const {
  const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  for (Py_ssize_t i = 0; i < named; ++i) {
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), parameter) == 0) return true;
  }
  return false;
}

Given::Given(const Signature& signature, const Call& call) : self_(call.self) {
  const auto end = std::ranges::find(signature.parameters, nullptr);
  const auto count = static_cast<Py_ssize_t>(end - signature.parameters.begin());
  if (call.count > count)
    throw py::type_error(cat(signature.name, "() takes ", count, " arguments, not ", call.count));
  std::copy_n(call.arguments, call.count, values_.begin());
  const Py_ssize_t named = call.names == nullptr ? 0 : PyTuple_GET_SIZE(call.names);
  for (Py_ssize_t i = 0; i < named; ++i)
    take_named(signature, PyTuple_GET_ITEM(call.names, i), call.arguments[call.count + i]);
  for (std::size_t i = 0; i < signature.required; ++i) {
    if (values_[i] == nullptr)
      throw py::type_error(cat(signature.name, "() lacks the argument ", signature.parameters[i]));
  }
}

void Given::take_named(const Signature& signature, PyObject* name, PyObject* value) {
  const auto found = std::ranges::find_if(signature.parameters, [&](const char* parameter) {
    return parameter != nullptr && PyUnicode_CompareWithASCIIString(name, parameter) == 0;
  });
  if (found == signature.parameters.end())
    throw py::type_error(
        cat(signature.name, "() has no parameter ", std::string(py::str(py::handle(name)))));
  PyObject*& place = values_[static_cast<std::size_t>(found - signature.parameters.begin())];
  if (place != nullptr)
    throw py::type_error(cat(signature.name, "() was given ", *found, " twice"));
  place = value;
}

bool Given::has(std::size_t parameter) const {
  PyObject* const value = values_[parameter];
  if (value == nullptr) return false;
  const int is_true = PyObject_IsTrue(value);
  if (is_true < 0) throw py::error_already_set();
  return is_true != 0;
}

void report_python() {
  try {
    throw;
  } catch (py::error_already_set& raised) {
    raise_as_nixl(raised);
  } catch (const py::cast_error& raised) {  // an argument's; pybind11 makes a RuntimeError of it
    PyErr_SetString(PyExc_TypeError, raised.what());
  } catch (const py::builtin_exception& raised) {
    raised.set_error();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& raised) {
    PyErr_SetString(PyExc_RuntimeError, raised.what());
  }
}

}  // namespace towpath::python
