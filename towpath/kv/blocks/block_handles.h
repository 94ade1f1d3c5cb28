// What a holder of a block has in hand. Each gives its block back when it dies; the pool outlives
// them all.
//
//   PartialBlock --complete()--> CompleteBlock --BlockPool::register_block()--> BlockRef <->
//   WeakBlock
//
// Thread: a handle one at a time; different handles, also of one block, any.
#pragma once

#include <cstdint>
#include <utility>

#include <towpath/kv/block_id.h>
#include <towpath/kv/digest.h>

namespace towpath::kv {

class BlockPool;

/// What a registered block is.
struct BlockIdentity {
  CachedBlock block;
  Digest digest;
};

/// A slot of one's own, to be filled.
class PartialBlock {
 public:
  PartialBlock(PartialBlock&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), slot_(other.slot_) {}
  PartialBlock& operator=(PartialBlock&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(slot_, other.slot_);
    return *this;
  }
  ~PartialBlock();

  SlotId slot() const noexcept { return slot_; }

 private:
  friend class BlockPool;
  friend class CompleteBlock;
  PartialBlock(BlockPool* pool, SlotId slot) : pool_(pool), slot_(slot) {}

  BlockPool* pool_;
  SlotId slot_;
};

/// Its bytes are all there, and have a name; nobody else can see it yet.
class CompleteBlock {
 public:
  CompleteBlock(PartialBlock&& block, const BlockIdentity& identity)
      : block_(std::move(block)), identity_(identity) {}

  SlotId slot() const noexcept { return block_.slot(); }
  const BlockIdentity& identity() const noexcept { return identity_; }
  /// To be filled anew.
  PartialBlock reset() && { return std::move(block_); }

 private:
  friend class BlockPool;
  PartialBlock block_;
  BlockIdentity identity_;
};

/// A block that others can find. It stays where it is while somebody holds one of these.
class BlockRef {
 public:
  BlockRef() = default;  ///< of no block
  BlockRef(const BlockRef& other);
  BlockRef(BlockRef&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), slot_(other.slot_) {}
  BlockRef& operator=(BlockRef other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(slot_, other.slot_);
    return *this;
  }
  ~BlockRef();

  explicit operator bool() const noexcept { return pool_ != nullptr; }
  SlotId slot() const noexcept { return slot_; }
  const BlockIdentity& identity() const;
  /// As it was registered with.
  std::uint8_t priority() const;
  BlockHash hash() const { return identity().block.hash; }

 private:
  friend class BlockPool;
  BlockRef(BlockPool* pool, SlotId slot) : pool_(pool), slot_(slot) {}

  BlockPool* pool_ = nullptr;
  SlotId slot_ = kNoSlot;
};

/// Remembers a block without holding it.
struct WeakBlock {
  BlockHash hash = 0;
  SlotId slot = kNoSlot;
  std::uint32_t generation = 0;
};

}  // namespace towpath::kv
