#include "bindings/python/src/convert.h"

#include <cmath>

#include <towpath/core/format.h>

namespace towpath::python {

py::object exception_of(const Status& status) {
  if (status.ok()) return py::none();
  const py::object make = py::module_::import("towpath.errors").attr("from_status");
  return make(name_of(status.code()), name_to_python(std::string(status.message())),
              name_to_python(std::string(status.hint())), exception_of(status.cause()));
}

void raise(const Status& status) {
  const py::object exception = exception_of(status);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw py::error_already_set();
}

Duration to_duration(const std::optional<double>& seconds) {
  if (!seconds.has_value()) return Duration::max();
  if (!(*seconds >= 0)) throw py::value_error("a time must be 0 seconds or more");
  constexpr double kForever = 9e9;  // seconds; as many nanoseconds still fit
  if (*seconds >= kForever) return Duration::max();
  return Duration(std::llround(*seconds * 1e9));
}

double to_seconds(Duration duration) { return static_cast<double>(duration.count()) / 1e9; }

MemoryKind to_kind(const std::string& name) {
  if (const auto kind = memory_kind_from_name(name)) return *kind;
  raise(error(Code::invalid_argument, cat("no memory kind '", printable(name), "'"),
              "use one of: system, pinned, device, disk, object, block"));
}

std::uint64_t to_u64(PyObject* number) {
  py::object index;
  if (PyLong_CheckExact(number) == 0) {  // what only acts like a whole number, as those of numpy do
    index = py::reinterpret_steal<py::object>(PyNumber_Index(number));
    if (!index) throw py::error_already_set();
    number = index.ptr();
  }
  // As wide as unsigned long long, and put together from the number's digits; that one goes by an
  // array of bytes, which takes three times as long.
  static_assert(sizeof(unsigned long) == sizeof(std::uint64_t));
  const unsigned long value = PyLong_AsUnsignedLong(number);
  if (value == static_cast<unsigned long>(-1) && PyErr_Occurred() != nullptr)
    throw py::error_already_set();
  return value;
}

py::bytes to_python(ConstByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

py::str name_to_python(const std::string& name) {
  PyObject* text =
      PyUnicode_DecodeUTF8(name.data(), static_cast<Py_ssize_t>(name.size()), "surrogateescape");
  if (text == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(text);
}

std::vector<std::string> to_strings(const std::vector<Name>& names) {
  std::vector<std::string> strings;
  strings.reserve(names.size());
  for (const Name& name : names) strings.push_back(name.value);
  return strings;
}

namespace {

/// The bytes of a str, or of a bytes object or bytearray; nothing for others.
std::optional<std::string> text_bytes(PyObject* source) {
  if (PyUnicode_Check(source) && PyUnicode_IS_COMPACT_ASCII(source)) {
    return std::string(reinterpret_cast<const char*>(PyUnicode_1BYTE_DATA(source)),
                       static_cast<std::size_t>(PyUnicode_GET_LENGTH(source)));
  }
  py::object bytes = py::reinterpret_borrow<py::object>(source);
  if (PyUnicode_Check(source)) {
    bytes = py::reinterpret_steal<py::object>(
        PyUnicode_AsEncodedString(source, "utf-8", "surrogateescape"));
    if (!bytes) throw py::error_already_set();
  }
  if (PyByteArray_Check(source)) {
    return std::string(PyByteArray_AS_STRING(source),
                       static_cast<std::size_t>(PyByteArray_GET_SIZE(source)));
  }
  if (!PyBytes_Check(bytes.ptr())) return std::nullopt;
  return std::string(PyBytes_AS_STRING(bytes.ptr()),
                     static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.ptr())));
}

}  // namespace
}  // namespace towpath::python

namespace pybind11::detail {

bool type_caster<towpath::python::Name>::load(handle source, bool) {
  auto bytes = towpath::python::text_bytes(source.ptr());
  if (!bytes) return false;
  value.value = *std::move(bytes);
  return true;
}

handle type_caster<towpath::python::Name>::cast(const towpath::python::Name& from,
                                                return_value_policy, handle) {
  return towpath::python::name_to_python(from.value).release();
}

bool type_caster<towpath::python::Blob>::load(handle source, bool) {
  if (const auto bytes = towpath::python::text_bytes(source.ptr())) {
    value.value = towpath::to_bytes(*bytes);
    return true;
  }
  if (PyObject_CheckBuffer(source.ptr()) == 0) return false;
  Py_buffer view;
  if (PyObject_GetBuffer(source.ptr(), &view, PyBUF_SIMPLE) != 0) throw error_already_set();
  const auto* const data = static_cast<const std::byte*>(view.buf);
  value.value.assign(data, data + view.len);
  PyBuffer_Release(&view);
  return true;
}

handle type_caster<towpath::python::Blob>::cast(const towpath::python::Blob& from,
                                                return_value_policy, handle) {
  return towpath::python::to_python(from.value).release();
}

}  // namespace pybind11::detail
