// How values cross: names and messages are bytes in the library, and a str or bytes in Python;
// times are seconds; failures are exceptions (towpath/errors.py).
// Thread: with the interpreter's lock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <pybind11/pybind11.h>

#include <towpath/core/bytes.h>
#include <towpath/core/clock.h>
#include <towpath/core/memory_kind.h>
#include <towpath/core/result.h>

namespace towpath::python {

namespace py = pybind11;

/// The name of an agent, a backend, a key: str (UTF-8, bytes that are none escaped), bytes or
/// bytearray.
struct Name {
  std::string value;
};

/// Any bytes: bytes, bytearray, memoryview, or the UTF-8 of a str.
struct Blob {
  Bytes value;
};

/// Raises the exception for a failure.
[[noreturn]] void raise(const Status& status);
/// The exception itself; None when ok.
py::object exception_of(const Status& status);

inline void check(const Status& status) {
  if (!status.ok()) raise(status);
}
template <typename T>
T unwrap(Result<T> result) {
  if (!result.ok()) raise(result.status());
  return *std::move(result);
}

/// None: never. Raises ValueError for what is negative or no number.
Duration to_duration(const std::optional<double>& seconds);
double to_seconds(Duration duration);
/// By name. Raises InvalidArgument.
MemoryKind to_kind(const std::string& name);
/// An exact, non-negative number of at most 64 bits. Raises TypeError, OverflowError.
std::uint64_t to_u64(PyObject* number);

py::bytes to_python(ConstByteSpan bytes);
/// A str that Name reads back.
py::str name_to_python(const std::string& name);
std::vector<std::string> to_strings(const std::vector<Name>& names);

}  // namespace towpath::python

namespace pybind11::detail {

template <>
struct type_caster<towpath::python::Name> {
  PYBIND11_TYPE_CASTER(towpath::python::Name, const_name("str | bytes | bytearray"));
  bool load(handle source, bool);
  static handle cast(const towpath::python::Name& from, return_value_policy, handle);
};

template <>
struct type_caster<towpath::python::Blob> {
  PYBIND11_TYPE_CASTER(towpath::python::Blob, const_name("bytes | str"));
  bool load(handle source, bool);
  static handle cast(const towpath::python::Blob& from, return_value_policy, handle);
};

}  // namespace pybind11::detail
