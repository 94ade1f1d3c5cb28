// BlockPool: the slots of one tier, and who holds what in them. It knows names and slots, no bytes.
//
//            allocate              complete               register
//   [ free ] -------> [ partial ] ---------> [ complete ] --------> [ registered ]
//      ^                  |                       |                  |    held: stays
//      +------------------+-----------------------+------------------+    let go: found, until its
//                     handle dies                       evicted           slot is wanted
//
// A block is found by others from register_block() on, never before. Who is held is never evicted;
// of the others the policy says who goes. Under `lru` that is the one let go longest ago, shard by
// shard: shards are by hash, so with more than one the order is nearly that. The other policies see
// all registered blocks and each use (registered, found, upgraded) in their order, so they have one
// shard: one lock. Steps cost the same however much was done before. Where tenants have a quota,
// one that has its share makes room among its own blocks, the one used longest ago first, whatever
// the policy. A handle gives its block back when it dies; the pool outlives all handles.
// Thread: any; a handle one at a time, different ones, also of one block, any.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <typeindex>
#include <typeinfo>
#include <utility>
#include <vector>

#include <towpath/core/result.h>
#include <towpath/kv/block_id.h>
#include <towpath/kv/blocks/block_directory.h>
#include <towpath/kv/digest.h>
#include <towpath/kv/figures.h>
#include <towpath/run/mutex.h>

namespace towpath::kv {

class BlockPool;
class TenantQuota;

// Handles: what a holder of a block has in hand.
//
//   PartialBlock --complete()--> CompleteBlock --register_block()--> BlockRef <--> WeakBlock

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

/// What happens when a block is registered that is there already.
enum class Duplicates : std::uint8_t {
  refuse,  ///< the first is given, and the slot of the second is free at once
  allow,   ///< the second keeps its slot, unseen by others, until it is let go
};

struct BlockPoolOptions {
  SlotId slots = 0;
  Duplicates duplicates = Duplicates::refuse;
  PolicyKind policy = PolicyKind::lru;
  bool exact_order = false;  ///< lru over all slots and not by shard: one lock
  /// Slots that one tenant may have, those of no tenant together as well; 0: no bound. One lock.
  SlotId most_of_a_tenant = 0;
  /// Learns what this pool has, as tier `tier`; outlives the pool. None: nobody is notified.
  BlockDirectory* block_directory = nullptr;
  TierIndex tier = 0;
};

/// A block that made room: its bytes are still in the slot while that is the caller's.
struct Evicted {
  BlockIdentity identity;
  SlotId slot = kNoSlot;
};

class BlockPool {
 public:
  /// Errors: invalid_argument (no slots, too many, no such tier).
  static Result<std::unique_ptr<BlockPool>> make(const BlockPoolOptions& options);
  /// All handles are gone.
  ~BlockPool();

  /// All of them or none; evicts as needed, and adds to `evicted` who went, also when it fails:
  /// then the identities alone hold, for the slots are free again, or others'. Errors: exhausted
  /// (the rest is held; or all that the tenant may have is).
  Result<std::vector<PartialBlock>> allocate(SlotId count, std::vector<Evicted>* evicted = nullptr,
                                             TenantId tenant = 0);
  /// Others find it from now on. `priority` is its user's affair. Errors: exhausted (its shard's
  /// table is full, which chance does not do); the block is then given back. invalid_argument (it
  /// was registered or moved from before, or is another pool's).
  Result<BlockRef> register_block(CompleteBlock&& block, std::uint8_t priority = kUsualPriority);

  /// Empty when it is not here.
  BlockRef find(BlockHash hash);
  /// The blocks from the first on, up to the first that is not here.
  std::vector<BlockRef> match(std::span<const BlockHash> hashes);
  /// The same by two names: a block of this hash that stands on another block is a hash collision,
  /// and a miss. Where one of the two does not say on what it stands, hashes decide alone.
  std::vector<BlockRef> match(std::span<const CachedBlock> blocks);
  /// All that are here; those that are not are empty.
  std::vector<BlockRef> scan(std::span<const BlockHash> hashes);

  /// The blocks before it in its prompt, as far back as they are here without a gap, the earliest
  /// first; and the block, the last.
  std::vector<BlockRef> lineage(const BlockRef& block);

  /// Where it is no block, or another pool's: one that nothing comes back from.
  WeakBlock weak(const BlockRef& block) const;
  /// Empty when the block was evicted or dropped meanwhile, also if it came back since.
  BlockRef upgrade(const WeakBlock& weak);

  /// Calls `visit` with the block while it stays where it is; that is no use of it, and changes
  /// nothing about who goes next. False: it is gone.
  using Visit = std::function<void(const BlockIdentity&, SlotId)>;
  bool look(const WeakBlock& weak, const Visit& visit);

  /// Ties a value of the user's to the block: one of each type, for as long as the block is here.
  /// Evicted, or dropped and let go by all, the block lets its values go, under no lock of the
  /// pool. False: it has one of this type already, or is no block of this pool.
  template <class T>
  bool attach(const BlockRef& block, std::shared_ptr<T> value) {
    return attach_value(block, typeid(T), std::move(value));
  }
  /// Null: there is none of this type.
  template <class T>
  std::shared_ptr<T> attached(const BlockRef& block) const {
    return std::static_pointer_cast<T>(attached_value(block, typeid(T)));
  }
  /// The same, which is no longer tied to the block.
  template <class T>
  std::shared_ptr<T> detach(const BlockRef& block) {
    return std::static_pointer_cast<T>(detach_value(block, typeid(T)));
  }

  /// It goes before all others when room is needed, unless it is found again before; one that is
  /// held, once it is let go. Whether it is here.
  bool spend(BlockHash hash);

  /// The block is found no more; its slot is free when nobody holds it. Whether it was there.
  bool drop(BlockHash hash);

  struct Figures {
    SlotId slots = 0;
    SlotId free = 0;
    SlotId registered = 0;        ///< that can be found
    SlotId held = 0;              ///< of these, by somebody
    std::uint64_t evictions = 0;  ///< from here on since the start
    std::uint64_t duplicates = 0;
    std::uint64_t asked = 0;  ///< hashes looked for by match() and scan()
    std::uint64_t found = 0;
    std::uint64_t hash_collisions = 0;  ///< found by match(), on another block than was asked for
    QuotaFigures quota{};               ///< all 0 where there is none
  };
  /// Exact when nothing else goes on. Cost: a look at every slot.
  Figures figures() const;
  /// As in figures().quota. Cost: one load.
  std::uint64_t evicted_over_quota() const noexcept;
  /// As in figures(), at the cost of a look at every shard.
  std::uint64_t registered() const;
  std::uint64_t evictions() const;

 private:
  friend class PartialBlock;
  friend class BlockRef;

  struct Slot {
    BlockIdentity identity;
    std::uint32_t generation = 0;
    std::uint32_t references = 0;  // of one that is unlisted; others have theirs in the table
    SlotId older = kNoSlot;
    SlotId newer = kNoSlot;
    bool queued = false;
    bool unlisted = false;  // a duplicate, or dropped while held
    bool spent = false;     // and not used since
    std::uint8_t priority = 0;
  };
  struct Shard;
  struct Memory;
  using Value = std::shared_ptr<void>;  // as Attachments has them
  using Values = std::vector<std::pair<std::type_index, Value>>;

  explicit BlockPool(const BlockPoolOptions& options);

  Shard& shard_of(BlockHash hash) const;
  bool attach_value(const BlockRef& block, std::type_index type, Value value);
  Value attached_value(const BlockRef& block, std::type_index type) const;
  Value detach_value(const BlockRef& block, std::type_index type);
  void add_reference(SlotId slot);
  /// `used`: it goes to the end of the order; otherwise it keeps its place.
  void release(SlotId slot, bool used = true);
  void free_slot(SlotId slot);
  struct Room {
    std::optional<SlotId> slot{};
    bool was_evicted = false;
  };
  Room room_anywhere();
  Room room_for(TenantId tenant);
  std::optional<SlotId> evict_own(TenantId tenant);
  std::optional<SlotId> take_free();
  std::optional<SlotId> evict_one();
  std::optional<SlotId> evict_spent();
  void line_up(const WeakBlock& spent);
  bool evict_if(const WeakBlock& block, const std::function<bool(SlotId)>& may_go);
  std::optional<SlotId> evict_from(Shard& shard);
  void evict(Shard& shard, SlotId slot, Values& gone);
  std::optional<SlotId> victim_in(Shard& shard);
  /// One more has it: `references` is its count.
  void use(Shard& shard, SlotId slot, std::uint32_t& references);
  /// The count of its references; null: it is here no more.
  std::uint32_t* known(Shard& shard, const WeakBlock& weak);
  void queue(Shard& shard, SlotId slot);
  void unqueue(Shard& shard, SlotId slot);

  const BlockPoolOptions options_;
  std::unique_ptr<Memory> memory_;  // of the slots, and of the tables' places
  std::span<Slot> slots_;           // each under its shard's lock, or its owner's
  std::size_t shard_count_;
  std::unique_ptr<Shard[]> shards_;
  std::unique_ptr<TenantQuota> quota_;       // null: there is none
  std::atomic<std::size_t> next_shard_{0};   // where to evict next: any order will do
  std::atomic<std::size_t> spent_count_{0};  // a hint that there are some
  run::Mutex spent_mutex_;                   // before a shard's
  std::deque<WeakBlock> spent_ TOWPATH_GUARDED_BY(spent_mutex_);  // the first goes first
  mutable run::Mutex free_mutex_;
  std::vector<SlotId> free_ TOWPATH_GUARDED_BY(free_mutex_);
};

}  // namespace towpath::kv
