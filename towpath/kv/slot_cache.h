// SlotCache: which block lies in which slot of a pool, and which goes when room is needed.
//
//            reserve              publish
//   [ free ] ------> [ filling ] --------> [ ready ] --- pin/unpin ---
//      ^                 | abandon            | evict (least recently used, not pinned), drop
//      +-----------------+--------------------+
//
// A block that is filling is found by nobody: it becomes visible with its digest, when its bytes
// are there. Pinned blocks stay. Nothing is allocated after the start but the map's nodes.
// Invariants: every slot is in one state; a ready block has one slot.
// Thread: none of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include <towpath/core/result.h>
#include <towpath/kv/digest.h>

namespace towpath::kv {

using BlockHash = std::uint64_t;
using SlotId = std::uint32_t;

/// A block that made room for another.
struct Evicted {
  BlockHash hash = 0;
  SlotId slot = 0;
  Digest digest;
};

class SlotCache {
 public:
  explicit SlotCache(SlotId slots);

  /// A ready block; it counts as used now. Cost: constant.
  std::optional<SlotId> find(BlockHash hash);
  bool contains(BlockHash hash) const { return by_hash_.contains(hash); }
  const Digest& digest(SlotId slot) const { return slots_[slot].digest; }
  BlockHash hash(SlotId slot) const { return slots_[slot].hash; }

  /// A slot for a block that is not here, and the ready block that it belonged to until now, if
  /// any: its bytes are still in the slot. Errors: already_exists, exhausted (all slots pinned or
  /// filling).
  struct Reserved {
    SlotId slot = 0;
    std::optional<Evicted> evicted;
  };
  Result<Reserved> reserve(BlockHash hash);
  /// The bytes are in the slot: the block is ready.
  void publish(SlotId slot, const Digest& digest);
  /// They never came.
  void abandon(SlotId slot);
  /// Forgets a ready block. What is pinned is found no more and free when the last pin goes.
  void drop(SlotId slot);

  void pin(SlotId slot);
  void unpin(SlotId slot);

  SlotId capacity() const noexcept { return static_cast<SlotId>(slots_.size()); }
  std::uint64_t ready() const noexcept { return by_hash_.size(); }
  std::uint64_t evictions() const noexcept { return evictions_; }

 private:
  enum class State : std::uint8_t { free, filling, ready, dropped };
  static constexpr SlotId kNone = UINT32_MAX;
  struct Slot {
    State state = State::free;
    std::uint32_t pins = 0;
    SlotId older = kNone;  // neighbours in order of use, of ready blocks without pins
    SlotId newer = kNone;
    BlockHash hash = 0;
    Digest digest;
  };

  void link_newest(SlotId slot);
  void unlink(SlotId slot);
  void release(SlotId slot);
  bool is_evictable(const Slot& slot) const { return slot.state == State::ready && slot.pins == 0; }

  std::vector<Slot> slots_;
  std::vector<SlotId> free_;
  std::unordered_map<BlockHash, SlotId> by_hash_;  // ready blocks
  std::unordered_map<BlockHash, SlotId> filling_;
  SlotId oldest_ = kNone;
  SlotId newest_ = kNone;
  std::uint64_t evictions_ = 0;
};

}  // namespace towpath::kv
