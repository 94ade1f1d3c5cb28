// BlockIndex: where a store's blocks lie, by hash. Millions are known at a time, so each takes 32
// bytes in a table that is nearly full (core/dense_table.h), and all of a segment are forgotten in
// one pass over it. Thread: one at a time.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include <towpath/core/dense_table.h>
#include <towpath/kv/disk/record_io.h>

namespace towpath::kv {

class BlockIndex {
 public:
  struct Place : PlacedRecord {
    bool acknowledged = true;
    bool is_kept = false;  ///< it was leaving, and is written again, which no sync has covered yet
  };

  std::size_t size() const noexcept { return table_.size(); }
  void make_room(std::size_t blocks) { table_.make_room(blocks); }
  bool contains(BlockHash hash) const noexcept { return table_.find(hash) != nullptr; }
  std::optional<Place> find(BlockHash hash) const;
  /// Whether a record there can be put: in the first 16 TiB of a segment.
  static bool can_name(std::uint64_t offset) noexcept {
    return offset % kSegmentPage == 0 && offset / kSegmentPage <= UINT32_MAX;
  }
  /// In the place of what there was of this hash. Its offset can be named.
  void put(const Place& place);
  /// Whether it was there.
  bool erase(BlockHash hash);
  /// All blocks of this segment.
  std::vector<BlockHash> erase_segment(std::uint64_t number);
  /// In no order.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    table_.for_each([&](const Entry& entry) { visit(unpacked(entry)); });
  }

 private:
  enum class Salt : std::uint8_t {
    none,
    own_hash,
    other
  };  // a connector salts a digest with the block's hash
  struct Entry {
    BlockHash hash = 0;
    std::uint64_t digest = 0;
    std::uint32_t segment = 0;  // of numbers_
    std::uint32_t page = 0;     // of the record in its segment
    std::uint32_t length = 0;
    DigestAlgorithm algorithm{};  // 0: free
    Salt salt = Salt::none;
    bool acknowledged = false;
    bool is_kept = false;

    bool is_free() const noexcept { return algorithm == DigestAlgorithm{}; }
    std::uint64_t key() const noexcept { return hash; }
  };
  static_assert(sizeof(Entry) == 32);

  Place unpacked(const Entry& entry) const;
  std::uint32_t slot_of(std::uint64_t segment);

  DenseTable<Entry> table_;
  std::unordered_map<BlockHash, std::uint64_t> other_salts_;
  std::vector<std::uint64_t> numbers_;                      // of segments, by slot
  std::unordered_map<std::uint64_t, std::uint32_t> slots_;  // and back
  std::vector<std::uint32_t> free_slots_;
};

}  // namespace towpath::kv
