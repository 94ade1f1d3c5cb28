// SlotCache: which block lies in which slot of a pool, and which goes when room is needed.
//
//            reserve              publish
//   [ free ] ------> [ filling ] --------> [ ready ] --- pin/unpin ---
//      ^                 | abandon            | evict (not pinned; the policy says which), drop
//      +-----------------+--------------------+
//
// A block that is filling is found by nobody: it becomes visible with its digest, when its bytes
// are there. Pinned blocks stay. A block that is found or published counts as used just then.
// Invariants: every slot is in one state; a ready block has one slot.
// Thread: none of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include <towpath/core/result.h>
#include <towpath/kv/block_id.h>
#include <towpath/kv/digest.h>
#include <towpath/kv/eviction/policy.h>

namespace towpath::kv {

/// A block that made room for another.
struct Evicted {
  CachedBlock block;
  SlotId slot = 0;
  Digest digest;
};

class SlotCache {
 public:
  explicit SlotCache(SlotId slots, PolicyKind policy = PolicyKind::lru);

  /// A ready block; it counts as used now. Cost: constant.
  std::optional<SlotId> find(BlockHash hash);
  bool contains(BlockHash hash) const { return by_hash_.contains(hash); }
  const Digest& digest(SlotId slot) const { return slots_[slot].digest; }
  BlockHash hash(SlotId slot) const { return slots_[slot].block.hash; }

  /// A slot for a block that is not here, and the ready block that it belonged to until now, if
  /// any: its bytes are still in the slot. Errors: already_exists, exhausted (all slots pinned or
  /// filling).
  struct Reserved {
    SlotId slot = 0;
    std::optional<Evicted> evicted;
  };
  Result<Reserved> reserve(const CachedBlock& block);
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
  struct Slot {
    State state = State::free;
    std::uint32_t pins = 0;
    CachedBlock block;
    Digest digest;
  };

  void release(SlotId slot);
  std::optional<SlotId> evict();

  std::vector<Slot> slots_;
  std::vector<SlotId> free_;
  std::unordered_map<BlockHash, SlotId> by_hash_;  // ready blocks
  std::unordered_map<BlockHash, SlotId> filling_;
  std::unique_ptr<EvictionPolicy> policy_;  // knows the ready blocks
  std::uint64_t evictions_ = 0;
};

}  // namespace towpath::kv
