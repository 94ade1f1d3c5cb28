// Descriptors and indices out of Python: sequences of tuples, and tables of numbers that come by
// the buffer protocol (numpy arrays, without numpy).
//
// All numbers are checked: nothing is cut to fewer bits, no negative one becomes a large one.
// Thread: with the interpreter's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>

#include <towpath/agent/options.h>
#include <towpath/core/descriptor.h>

namespace towpath::python {

namespace py = pybind11;

/// The items of what can be iterated. Its size is to be asked anew each time: reading a number may
/// run code that changes a list.
class Sequence {
 public:
  /// Raises TypeError, with this text.
  Sequence(py::handle source, const char* otherwise)
      : items_(py::reinterpret_steal<py::object>(PySequence_Fast(source.ptr(), otherwise))) {
    if (!items_) throw py::error_already_set();
  }
  std::size_t size() const noexcept {
    return static_cast<std::size_t>(PySequence_Fast_GET_SIZE(items_.ptr()));
  }
  /// Borrowed.
  py::handle operator[](std::size_t index) const noexcept {
    return PySequence_Fast_GET_ITEM(items_.ptr(), static_cast<Py_ssize_t>(index));
  }

 private:
  py::object items_;
};

/// Tuples (address, length, device), or a table of N rows and these 3 columns, of 64-bit integers.
/// Raises TypeError, ValueError, OverflowError.
std::vector<Descriptor> to_descriptors(py::handle source);
/// The table, or nothing when `source` has no buffer.
std::optional<std::vector<Descriptor>> descriptors_of_buffer(py::handle source);
/// A tuple (address, length, device).
Descriptor to_descriptor(py::handle source);

/// A table of N rows of 5 integers of 64 bits: address, length, device, stride, count. Each row
/// becomes one strided descriptor. Raises TypeError, ValueError; InvalidArgument for a row without
/// bytes, or whose extents overlap; OutOfRange.
DescriptorList strided_descriptors(MemoryKind kind, py::handle source);

/// The same list with runs of equal extents at equal distances as one entry each: the way that
/// the library likes them. Errors: out_of_range.
Result<DescriptorList> with_runs(MemoryKind kind, const std::vector<Descriptor>& descriptors);

/// Which extents of a prepared list: None is all; a range; numbers in a sequence or a table.
class Indices {
 public:
  /// Raises TypeError, ValueError, OverflowError (more than 32 bits).
  explicit Indices(py::handle source);
  explicit Indices(std::vector<std::uint32_t> indices)
      : count_(indices.size()), by_index_(true), indices_(std::move(indices)) {}
  /// Borrows from this.
  agent::Selection selection() const;
  /// Each of them, of a list of `size`; one past 32 bits is UINT32_MAX.
  std::vector<std::uint32_t> numbers(std::uint64_t size) const;
  bool empty() const noexcept { return !all_ && count_ == 0; }

 private:
  bool all_ = false;
  std::uint64_t first_ = 0;
  std::uint64_t count_ = 0;
  bool by_index_ = false;
  std::vector<std::uint32_t> indices_;
};

}  // namespace towpath::python
