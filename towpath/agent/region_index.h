// RegionIndex: finds the registered region that covers an extent of memory.
//
// Regions may repeat, overlap and nest; of those that cover an extent the one with the highest
// start wins, and of several that start there the longest. Adding is cheap; the next look-up sorts
// what was added. A look-up is logarithmic whatever the regions are: a peer's metadata chooses
// them. Thread: none of its own; guarded by the agent's control mutex.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <towpath/agent/memory_record.h>
#include <towpath/core/descriptor.h>

namespace towpath::agent {

/// One region. A peer's has no record until somebody asks for it (remote_regions.h); one that has
/// an object key or a file has it from the start.
struct RegionEntry {
  MemoryKind kind = MemoryKind::system;
  std::uint64_t device_id = 0;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  RecordPtr record;
  std::uint64_t row = 0;  ///< of a peer's: by which its keys are found

  static RegionEntry of(const RegionDescriptor& region) {
    return {region.kind, region.device_id, region.address, region.length, nullptr, 0};
  }
  bool is_stale() const noexcept { return record && record->stale; }
  bool may_be_joined() const noexcept { return !record || record->may_be_joined(); }
};

class RegionIndex {
 public:
  void add(RecordPtr record);
  void add(RegionEntry entry);
  void reserve(std::size_t regions) { entries_.reserve(regions); }
  /// One more record is stale and in no instance: its entry goes with others, when they are half of
  /// all, or when regions are looked for as they are registered and these are in the way. Cost:
  /// constant, on average.
  void note_gone();
  /// Of equal regions only the one that was added first stays.
  void drop_repeats();

  /// What covers `what` and is not stale, or null. Valid until something is added or removed. Cost:
  /// logarithmic, plus one such step per stale record on the way.
  RegionEntry* find(MemoryKind kind, const Descriptor& what);
  /// The one of exactly this region that may be joined, or null; of several the one added first.
  RegionEntry* find_exactly(const RegionDescriptor& region);
  RegionEntry* find_exactly(const RegionEntry& entry);

  /// In no particular order.
  std::span<RegionEntry> entries() noexcept { return entries_; }
  std::span<const RegionEntry> entries() const noexcept { return entries_; }
  /// Entries and sums of them that were examined so far: what the work grows with.
  std::uint64_t steps() const noexcept { return steps_; }

 private:
  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  void sort();
  void drop_gone();
  void note_ends();
  /// Those of the same kind and device that start at or before `what`.
  Range starting_before(MemoryKind kind, const Descriptor& what);
  /// The one behind what was found last, if it is the answer; lists mostly name neighbours. Else
  /// null.
  RegionEntry* find_neighbour(MemoryKind kind, const Descriptor& what);
  /// The last one in `range` that ends at `end` or behind it.
  std::optional<std::size_t> last_reaching(Range range, std::uint64_t end);
  template <typename Region>
  RegionEntry* find_equal(const Region& region);

  std::vector<RegionEntry> entries_;
  std::size_t sorted_ = 0;  // this many entries are in order
  std::size_t gone_ = 0;    // this many are reported as gone and still stand
  // A binary tree: the ends of entries_ from leaves_ on, and at i the further one of 2i and 2i + 1.
  std::vector<std::uint64_t> ends_;
  std::size_t leaves_ = 0;     // 0: not known
  std::size_t neighbour_ = 0;  // the place behind what was found last
  std::uint64_t steps_ = 0;
};

/// Of an entry that was found and has one; null: nothing was found.
inline RecordPtr record_of(const RegionEntry* found) { return found ? found->record : nullptr; }

}  // namespace towpath::agent
