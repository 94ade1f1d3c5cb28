// Descriptors and indices out of Python: sequences of tuples, and tables of numbers that come by
// the buffer protocol (numpy arrays, without numpy).
//
// All numbers are checked: nothing is cut to fewer bits, no negative one becomes a large one.
// Thread: with the interpreter's lock.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>

#include <towpath/agent/options.h>
#include <towpath/core/descriptor.h>

namespace towpath::python {

namespace py = pybind11;

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
