// MetadataEncoder: the table of this agent's metadata (metadata_table.h), kept as regions come and
// go.
//
// A region's row is written when it is registered, while its keys are at hand, so that metadata
// costs a copy. A row reports what differs from the one before: when that one goes, it is written
// again.
//
//   add a, b, c      | a | b - a | c - b |
//   remove b         | a | (gap) | c - b |
//   table()          | a | c - a |
//
// Invariant: every row was written against the one that stands before it in rows_, gap or not; the
// last is no gap; gaps are no more than rows, but for a few: who never asks for metadata has no
// more here than regions. Thread: none of its own; guarded by the agent's control mutex.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <towpath/agent/memory_record.h>
#include <towpath/agent/metadata_table.h>
#include <towpath/core/bytes.h>
#include <towpath/core/result.h>

namespace towpath::agent {

class MetadataEncoder {
 public:
  /// From now on keys of this instance's backend are written, under the next number.
  void advertise(std::size_t instance);
  bool advertises(std::size_t instance) const noexcept {
    return (instances_ & instance_bit(instance)) != 0;
  }
  bool advertises(const MemoryRecord& record) const noexcept {
    return (record.offered & instances_) != 0;
  }

  /// The record and its keys stay as they are until remove(). Nothing, when no backend that is
  /// reported of has it.
  void add(MemoryRecord& record);
  /// Harmless when it has no row. Cost: constant, as a mean; the next table() writes what comes
  /// behind anew.
  void remove(MemoryRecord& record);

  /// All rows; valid until the next call that changes something. Errors: out_of_range (over a bound
  /// of the format).
  Result<ConstByteSpan> table();
  /// Rows of these alone. Errors: the same.
  Result<Bytes> table_of(std::span<const MemoryRecord* const> records) const;

 private:
  struct Row {
    MemoryRecord* record = nullptr;  // null: a gap
    std::size_t end = 0;             // in the table
  };

  static constexpr std::size_t kNone = SIZE_MAX;

  void read(const MemoryRecord& record, TableRow& row) const;
  TableRow row_of(const MemoryRecord& record) const;
  std::size_t end_of_rows() const noexcept { return rows_.empty() ? 0 : rows_.back().end; }
  void write(MemoryRecord& record);
  /// The record that was read into row_.
  void write_row_of(MemoryRecord& record);
  /// The bytes of rows that were counted from `begin` on.
  struct Written {
    const std::byte* bytes = nullptr;
    std::size_t begin = 0;
  };
  void copy_behind(std::span<const Row> rows, const Written& before);
  void close_gaps();

  InstanceMask instances_ = 0;
  std::array<std::uint32_t, kMaxInstances> numbers_{};
  std::uint32_t advertised_instances_ = 0;
  std::vector<Row> rows_;
  std::size_t first_gap_ = kNone;
  std::size_t gaps_ = 0;
  TableWriter table_;
  TableRow row_, before_;  // what is just written, against what: their room is used again
  const MemoryRecord* before_of_ = nullptr;  // which record was read into before_, if any
  std::vector<const MemoryRecord*> unfit_;   // over a bound of the format: no row names them
};

}  // namespace towpath::agent
