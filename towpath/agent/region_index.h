// RegionIndex: finds the registered region that covers a stretch of memory.
//
// Regions may repeat, overlap and nest; of those that cover a stretch the one with the highest
// start wins, and of several that start there the longest. Adding is cheap; the next look-up sorts
// what was added. A look-up is logarithmic whatever the regions are: a peer's card chooses them.
// Thread: none of its own; guarded by the agent's control mutex.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <towpath/agent/memory_record.h>
#include <towpath/core/descriptor.h>

namespace towpath::agent {

/// A total order of regions: by place, then by length and what else tells them apart.
bool comes_before(const RegionDescriptor& a, const RegionDescriptor& b);

class RegionIndex {
 public:
  void add(RecordPtr record);
  /// Cost: linear in the number of regions.
  void remove(const MemoryRecord* record);
  void clear() noexcept;

  /// The record that covers `what` and is not stale, or null. Cost: logarithmic, plus one such step
  /// per stale record on the way.
  RecordPtr find(MemoryKind kind, const Descriptor& what);
  /// The record of exactly this region, not stale, or null; of several the one added first.
  RecordPtr find_exactly(const RegionDescriptor& region);

  /// In no particular order.
  const std::vector<RecordPtr>& records() const noexcept { return records_; }
  /// Records and sums of them that were looked at so far: what the work grows with.
  std::uint64_t steps() const noexcept { return steps_; }

 private:
  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  void sort();
  void note_ends();
  /// Those of the same kind and device that start at or before `what`.
  Range starting_before(MemoryKind kind, const Descriptor& what);
  /// The last one in `range` that ends at `end` or behind it.
  std::optional<std::size_t> last_reaching(Range range, std::uint64_t end);

  std::vector<RecordPtr> records_;
  std::size_t sorted_ = 0;  // this many records are in order
  // A binary tree: the ends of records_ from leaves_ on, and at i the further one of 2i and 2i + 1.
  std::vector<std::uint64_t> ends_;
  std::size_t leaves_ = 0;  // 0: not known
  std::uint64_t steps_ = 0;
};

}  // namespace towpath::agent
