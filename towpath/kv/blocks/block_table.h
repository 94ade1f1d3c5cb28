// BlockTable: hash -> slot and count of references, in one cache line's worth of looking: open
// addressing, linear, never growing: at most two thirds full is best. Its places are the owner's,
// who may lay those of many tables side by side. The first step of a lookup can be prefetched by
// anyone at any time. Thread: none of its own; prefetch(): any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <towpath/kv/block_id.h>

namespace towpath::kv {

class BlockTable {
 public:
  struct Entry {
    BlockHash hash = 0;
    SlotId slot = kNoSlot;  ///< kNoSlot: the place is empty
    std::uint32_t references = 0;
  };

  /// How many places a table for so many entries wants; full() says when only one is left.
  static std::size_t places_for(std::size_t entries);

  BlockTable() = default;
  /// Empty places, which outlive it; as many as places_for() says.
  explicit BlockTable(std::span<Entry> places);

  void prefetch(BlockHash hash) const { __builtin_prefetch(&entries_[home_of(hash)]); }
  /// Valid until the next insert() or erase(); null when there is none.
  Entry* find(BlockHash hash);
  /// The hash is not there, and the table not full.
  Entry& insert(BlockHash hash, SlotId slot);
  void erase(BlockHash hash);

  std::size_t size() const noexcept { return size_; }
  /// Entries with references. Cost: a look at every place.
  std::size_t held() const;
  bool full() const noexcept { return size_ + 1 >= entries_.size(); }

 private:
  std::size_t home_of(BlockHash hash) const {
    return static_cast<std::size_t>((hash * 0x9e3779b97f4a7c15ULL) >> shift_);
  }
  std::size_t after(std::size_t at) const { return (at + 1) & (entries_.size() - 1); }

  std::span<Entry> entries_;
  std::size_t size_ = 0;
  int shift_ = 0;
};

}  // namespace towpath::kv
