#include "bindings/python/src/tables.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include <towpath/core/format.h>

#include "bindings/python/src/convert.h"

namespace towpath::python {
namespace {

constexpr int kColumns = 3;

/// A buffer of Python, given back at the end.
class Table {
 public:
  /// Nothing: `source` has none. Raises what the exporter raises.
  static std::optional<Table> of(py::handle source) {
    if (PyObject_CheckBuffer(source.ptr()) == 0) return std::nullopt;
    Table table;
    if (PyObject_GetBuffer(source.ptr(), &table.view_, PyBUF_STRIDED_RO | PyBUF_FORMAT) != 0)
      throw py::error_already_set();
    table.held_ = true;
    table.type_ = type_of(table.view_.format);
    return table;
  }
  Table(Table&& other) noexcept
      : view_(other.view_), held_(std::exchange(other.held_, false)), type_(other.type_) {}
  Table& operator=(Table&&) = delete;
  ~Table() {
    if (held_) PyBuffer_Release(&view_);
  }

  int dimensions() const noexcept { return view_.ndim; }
  Py_ssize_t extent(int dimension) const noexcept { return view_.shape[dimension]; }
  Py_ssize_t item_bytes() const noexcept { return view_.itemsize; }
  /// Of the items: 'i' signed, 'u' unsigned integers in this machine's order of bytes, else 0.
  char type() const noexcept { return type_; }
  /// The rows as they lie there, when they lie as descriptors do and no number is negative.
  std::optional<std::span<const Descriptor>> as_descriptors() const noexcept {
    static_assert(sizeof(Descriptor) == kColumns * sizeof(std::uint64_t));
    const bool is_dense = view_.strides[0] == sizeof(Descriptor) && view_.strides[1] == 8 &&
                          reinterpret_cast<std::uintptr_t>(view_.buf) % alignof(Descriptor) == 0;
    if (!is_dense) return std::nullopt;
    const std::span rows(static_cast<const Descriptor*>(view_.buf),
                         static_cast<std::size_t>(extent(0)));
    std::uint64_t signs = 0;
    for (const Descriptor& row : rows) signs |= row.address | row.length | row.device_id;
    if (type() == 'i' && signs >> 63U != 0) return std::nullopt;
    return rows;
  }
  /// Bytes from one row to the next.
  Py_ssize_t step() const noexcept { return view_.strides[0]; }
  const char* at(Py_ssize_t row, Py_ssize_t column = 0) const noexcept {
    const auto* const data = static_cast<const char*>(view_.buf) + row * view_.strides[0];
    return view_.ndim > 1 ? data + column * view_.strides[1] : data;
  }

 private:
  Table() = default;
  static char type_of(const char* format) noexcept {
    if (format == nullptr) return 'u';  // bytes
    if (*format == '@' || *format == '=' || *format == '<') ++format;
    if (format[0] == 0 || format[1] != 0) return 0;
    if (std::strchr("bhilqn", format[0]) != nullptr) return 'i';
    return std::strchr("BHILQN", format[0]) != nullptr ? 'u' : 0;
  }

  Py_buffer view_{};
  bool held_ = false;
  char type_ = 0;
};

template <typename Signed, typename Unsigned>
std::uint64_t load(const char* from, bool is_signed) {
  if (!is_signed) {
    Unsigned value = 0;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  Signed value = 0;
  std::memcpy(&value, from, sizeof value);
  if (value < 0)
    throw py::value_error(cat("a negative number: ", static_cast<std::int64_t>(value)));
  return static_cast<std::uint64_t>(value);
}

std::uint64_t load(const Table& table, const char* from) {
  const bool is_signed = table.type() == 'i';
  switch (table.item_bytes()) {
    case 1: return load<std::int8_t, std::uint8_t>(from, is_signed);
    case 2: return load<std::int16_t, std::uint16_t>(from, is_signed);
    case 4: return load<std::int32_t, std::uint32_t>(from, is_signed);
    default: return load<std::int64_t, std::uint64_t>(from, is_signed);
  }
}

std::uint32_t to_index(std::uint64_t number) {
  if (number > UINT32_MAX) {
    PyErr_SetString(PyExc_OverflowError, cat("index ", number, " has more than 32 bits").c_str());
    throw py::error_already_set();
  }
  return static_cast<std::uint32_t>(number);
}

/// False: one is no index; which one, and why, says to_index().
template <typename Number>
bool take_indices(const Table& table, std::vector<std::uint32_t>& indices) {
  bool fits = true;
  const char* at = table.at(0);
  for (std::uint32_t& index : indices) {
    Number number = 0;
    std::memcpy(&number, at, sizeof number);
    fits = fits && std::in_range<std::uint32_t>(number);
    index = static_cast<std::uint32_t>(number);
    at += table.step();
  }
  return fits;
}

bool take_indices(const Table& table, std::vector<std::uint32_t>& indices) {
  const bool is_signed = table.type() == 'i';
  switch (table.item_bytes()) {
    case 4:
      return is_signed ? take_indices<std::int32_t>(table, indices)
                       : take_indices<std::uint32_t>(table, indices);
    case 8:
      return is_signed ? take_indices<std::int64_t>(table, indices)
                       : take_indices<std::uint64_t>(table, indices);
    default: return false;  // short numbers, which nobody uses: one by one
  }
}

std::vector<std::uint32_t> indices_of(const Table& table) {
  if (table.dimensions() != 1 || table.type() == 0)
    throw py::type_error("indices must be a table of one dimension, of integers");
  std::vector<std::uint32_t> indices(static_cast<std::size_t>(table.extent(0)));
  if (take_indices(table, indices)) return indices;
  for (std::size_t row = 0; row < indices.size(); ++row)
    indices[row] = to_index(load(table, table.at(static_cast<Py_ssize_t>(row))));
  return indices;
}

std::uint64_t item(PyObject* tuple, Py_ssize_t index) {
  return to_u64(PyTuple_GET_ITEM(tuple, index));
}

constexpr Py_ssize_t kStridedColumns = 5;

StridedDescriptor strided_row(const Table& table, Py_ssize_t row) {
  const auto number = [&](Py_ssize_t column) { return load(table, table.at(row, column)); };
  return {.address = number(0),
          .length = number(1),
          .stride = number(3),
          .count = number(4),
          .device_id = number(2)};
}

/// As NIXL takes them: something in each, and nothing twice.
Status check_strided_row(const StridedDescriptor& row) {
  if (row.count == 0 || row.length == 0)
    return error(Code::invalid_argument, cat(row.count, " blocks of ", row.length, " bytes"),
                 "leave out a row that names no bytes");
  if (row.stride < row.length)
    return error(Code::invalid_argument,
                 cat("blocks of ", row.length, " bytes are ", row.stride, " bytes apart"),
                 "give a stride of at least the length, also where the count is 1");
  return {};
}

/// Whether `next` goes on what `run` is: one more extent, one more step away.
bool continues(const StridedDescriptor& run, const Descriptor& next) {
  if (next.length != run.length || next.device_id != run.device_id) return false;
  if (next.address <= run.address) return false;
  if (run.count == 1) return true;
  return next.address - run.address == run.stride * run.count;
}

}  // namespace

Descriptor to_descriptor(py::handle source) {
  if (!PyTuple_Check(source.ptr()) || PyTuple_GET_SIZE(source.ptr()) != kColumns)
    throw py::type_error("a descriptor is a tuple (address, length, device)");
  // A number's own code may take it out of where it stands.
  const auto kept = py::reinterpret_borrow<py::object>(source);
  return {item(source.ptr(), 0), item(source.ptr(), 1), item(source.ptr(), 2)};
}

std::optional<std::vector<Descriptor>> descriptors_of_buffer(py::handle source) {
  const auto table = Table::of(source);
  if (!table) return std::nullopt;
  if (table->dimensions() != 2 || table->extent(1) != kColumns || table->item_bytes() != 8 ||
      table->type() == 0)
    throw py::type_error(
        "a table of descriptors has rows of 3 integers of 64 bits: address, length, device");
  if (const auto whole = table->as_descriptors()) return std::vector(whole->begin(), whole->end());
  std::vector<Descriptor> descriptors;
  descriptors.reserve(static_cast<std::size_t>(table->extent(0)));
  for (Py_ssize_t row = 0; row < table->extent(0); ++row)
    descriptors.push_back({load(*table, table->at(row, 0)), load(*table, table->at(row, 1)),
                           load(*table, table->at(row, 2))});
  return descriptors;
}

DescriptorList strided_descriptors(MemoryKind kind, py::handle source) {
  const auto table = Table::of(source);
  if (!table || table->dimensions() != 2 || table->extent(1) != kStridedColumns ||
      table->item_bytes() != 8 || table->type() == 0)
    throw py::type_error(
        "a table of strided descriptors has rows of 5 integers of 64 bits: address, length, "
        "device, stride, count");
  DescriptorList list(kind);
  list.reserve(static_cast<std::size_t>(table->extent(0)));
  for (Py_ssize_t i = 0; i < table->extent(0); ++i) {
    const StridedDescriptor row = strided_row(*table, i);
    Status status = check_strided_row(row);
    if (status.ok()) status = list.add(row);
    if (!status.ok())
      raise(
          error(status.code(), cat("row ", i, ": ", status.message()), std::string(status.hint())));
  }
  return list;
}

std::vector<Descriptor> to_descriptors(py::handle source) {
  if (auto table = descriptors_of_buffer(source)) return *std::move(table);
  const Sequence sequence(source,
                          "descriptors are tuples (address, length, device), or a table of them");
  std::vector<Descriptor> descriptors;
  descriptors.reserve(sequence.size());
  for (std::size_t i = 0; i < sequence.size(); ++i)
    descriptors.push_back(to_descriptor(sequence[i]));
  return descriptors;
}

Result<DescriptorList> with_runs(MemoryKind kind, const std::vector<Descriptor>& descriptors) {
  DescriptorList list(kind);
  list.reserve(descriptors.size());
  std::optional<StridedDescriptor> run;
  for (const Descriptor& next : descriptors) {
    if (run && continues(*run, next)) {
      if (run->count == 1) run->stride = next.address - run->address;
      ++run->count;
      continue;
    }
    if (run) TOWPATH_TRY(list.add(*run));
    run = StridedDescriptor{.address = next.address,
                            .length = next.length,
                            .stride = 0,
                            .count = 1,
                            .device_id = next.device_id};
  }
  if (run) TOWPATH_TRY(list.add(*run));
  return list;
}

Indices::Indices(py::handle source) {
  if (source.is_none()) {
    all_ = true;
    return;
  }
  if (PyRange_Check(source.ptr()) && py::cast<py::int_>(source.attr("step")).equal(py::int_(1))) {
    count_ = static_cast<std::uint64_t>(py::len(source));
    if (count_ > 0) first_ = to_u64(py::object(source.attr("start")).ptr());
    return;
  }
  by_index_ = true;
  if (const auto table = Table::of(source)) {
    indices_ = indices_of(*table);
  } else {
    const Sequence sequence(source,
                            "indices are a range, a sequence of integers, or a table of them");
    indices_.reserve(sequence.size());
    for (std::size_t i = 0; i < sequence.size(); ++i)
      indices_.push_back(to_index(to_u64(sequence[i].ptr())));
  }
  count_ = indices_.size();
}

std::vector<std::uint32_t> Indices::numbers(std::uint64_t size) const {
  if (by_index_) return indices_;
  const std::uint64_t count = all_ ? size : count_;
  std::vector<std::uint32_t> numbers;
  // A range may be longer than any list: one number past the end is enough to be refused.
  for (std::uint64_t i = 0; i < std::min(count, size + 1); ++i)
    numbers.push_back(static_cast<std::uint32_t>(std::min<std::uint64_t>(first_ + i, UINT32_MAX)));
  return numbers;
}

agent::Selection Indices::selection() const {
  if (all_) return {};
  return by_index_ ? agent::Selection::of(indices_) : agent::Selection::range(first_, count_);
}

}  // namespace towpath::python
