#include <algorithm>
#include <utility>

#include <towpath/core/check.h>
#include <towpath/core/format.h>
#include <towpath/kv/blocks/attachments.h>
#include <towpath/kv/blocks/block_pool.h>
#include <towpath/kv/blocks/block_table.h>
#include <towpath/kv/blocks/tenant_quota.h>
#include <towpath/kv/eviction/policy.h>
#include <towpath/sys/page_allocator.h>

namespace towpath::kv {

using run::MutexLock;

namespace {

constexpr std::size_t kMostPoolShards = 64;
constexpr std::size_t kSlotsPerShard = 1024;  // fewer, and chance fills shards too unlike
constexpr std::size_t kAhead = 12;            // lookups: about as many misses as a core keeps open

std::size_t shards_for(const BlockPoolOptions& options) {
  std::size_t shards = 1;
  if (options.exact_order || options.policy != PolicyKind::lru) return shards;
  while (shards < kMostPoolShards && options.slots / (2 * shards) >= kSlotsPerShard) shards *= 2;
  return shards;
}

}  // namespace

struct BlockPool::Memory {
  template <class T>
  using Array = std::vector<T, sys::PageAllocator<T>>;

  explicit Memory(std::size_t slot_count) : slots(slot_count) {}

  Array<Slot> slots;
  Array<BlockTable::Entry> places;  // of the tables of all shards
};

// Each on cache lines of its own.
struct alignas(128) BlockPool::Shard {
  mutable run::Mutex mutex;
  BlockTable table;  // its places are fixed once made: prefetched without the lock
  // Knows all that is in the table; none for lru, which has the list below.
  std::unique_ptr<EvictionPolicy> policy TOWPATH_GUARDED_BY(mutex);
  // Blocks that were let go, oldest first; and some that were taken again since.
  SlotId oldest TOWPATH_GUARDED_BY(mutex) = kNoSlot;
  SlotId newest TOWPATH_GUARDED_BY(mutex) = kNoSlot;
  Attachments attachments TOWPATH_GUARDED_BY(mutex);
  std::uint64_t evictions TOWPATH_GUARDED_BY(mutex) = 0;
  std::uint64_t duplicates TOWPATH_GUARDED_BY(mutex) = 0;
  std::uint64_t asked TOWPATH_GUARDED_BY(mutex) = 0;
  std::uint64_t found TOWPATH_GUARDED_BY(mutex) = 0;
  std::uint64_t hash_collisions TOWPATH_GUARDED_BY(mutex) = 0;
};

Result<std::unique_ptr<BlockPool>> BlockPool::make(const BlockPoolOptions& options) {
  if (options.slots == 0 || options.slots > UINT32_MAX / 2 || options.tier >= kMaxTiers)
    return error(Code::invalid_argument,
                 cat("a pool of ", options.slots, " slots as tier ", options.tier),
                 cat("use 1 to 2^31 slots, and a tier below ", kMaxTiers));
  return std::unique_ptr<BlockPool>(new BlockPool(options));
}

BlockPool::BlockPool(const BlockPoolOptions& options)
    : options_(options),
      memory_(std::make_unique<Memory>(options.slots)),
      slots_(memory_->slots),
      shard_count_(shards_for(options)),
      shards_(std::make_unique<Shard[]>(shard_count_)) {
  const std::size_t share = BlockTable::places_for(options.slots / shard_count_ + 1);
  memory_->places.resize(share * shard_count_);
  for (std::size_t i = 0; i < shard_count_; ++i)
    shards_[i].table = BlockTable(std::span(memory_->places).subspan(i * share, share));
  if (options.policy != PolicyKind::lru)
    shards_[0].policy = make_policy(options.policy, options.slots);
  if (options.most_of_a_tenant > 0)
    quota_ = std::make_unique<TenantQuota>(options.slots, options.most_of_a_tenant);
  free_.reserve(options.slots);
  for (SlotId slot = options.slots; slot-- > 0;) free_.push_back(slot);
}

BlockPool::~BlockPool() {
  const Figures last = figures();
  TOWPATH_CHECK(last.held == 0 && last.free + last.registered == last.slots,
                "a pool outlives the handles of its blocks");
}

// Another mix than the table's, or all of a shard would begin in one corner of its table.
BlockPool::Shard& BlockPool::shard_of(BlockHash hash) const {
  const std::uint64_t mixed = (hash ^ hash >> 31U) * 0xbf58476d1ce4e5b9ULL;
  return shards_[(mixed >> 32U) & (shard_count_ - 1)];
}

// Slots -------------------------------------------------------------------------------------------

void BlockPool::free_slot(SlotId slot) {
  if (quota_) quota_->leave(slot);
  const MutexLock lock(free_mutex_);
  free_.push_back(slot);
}

std::optional<SlotId> BlockPool::evict_one() {
  if (const auto slot = evict_spent()) return slot;
  for (std::size_t tried = 0; tried < shard_count_; ++tried) {
    Shard& shard =
        shards_[next_shard_.fetch_add(1, std::memory_order_relaxed) & (shard_count_ - 1)];
    if (const auto slot = evict_from(shard)) return slot;
  }
  return std::nullopt;
}

/// Where it is the same block still, and nobody holds it.
bool BlockPool::evict_if(const WeakBlock& block, const std::function<bool(SlotId)>& may_go) {
  Shard& shard = shard_of(block.hash);
  Values gone;  // before the lock, so that they go after it
  const MutexLock lock(shard.mutex);
  const std::uint32_t* const references = known(shard, block);
  if (references == nullptr || *references > 0 || !may_go(block.slot)) return false;
  if (slots_[block.slot].queued) unqueue(shard, block.slot);
  if (shard.policy) shard.policy->remove(block.slot);
  evict(shard, block.slot, gone);
  return true;
}

bool BlockPool::spend(BlockHash hash) {
  WeakBlock spent{.hash = hash};
  {
    Shard& shard = shard_of(hash);
    const MutexLock lock(shard.mutex);
    const BlockTable::Entry* const entry = shard.table.find(hash);
    if (entry == nullptr) return false;
    spent.slot = entry->slot;
    spent.generation = slots_[entry->slot].generation;
    if (std::exchange(slots_[entry->slot].spent, true)) return true;
    if (entry->references > 0) return true;  // it is lined up when it is let go
  }
  line_up(spent);
  return true;
}

void BlockPool::line_up(const WeakBlock& spent) {
  const MutexLock lock(spent_mutex_);
  if (spent_.size() >= 2 * slots_.size()) spent_.pop_front();  // of blocks that were used since
  spent_.push_back(spent);
  spent_count_.store(spent_.size(), std::memory_order_relaxed);
}

std::optional<SlotId> BlockPool::evict_from(Shard& shard) {
  Values gone;  // before the lock, so that they go after it
  const MutexLock lock(shard.mutex);
  const std::optional<SlotId> slot = victim_in(shard);
  if (slot) evict(shard, *slot, gone);
  return slot;
}

/// It is in no order of those that may go any more.
void BlockPool::evict(Shard& shard, SlotId slot, Values& gone) TOWPATH_NO_THREAD_SAFETY_ANALYSIS {
  const BlockHash hash = slots_[slot].identity.block.hash;
  shard.table.erase(hash);
  ++slots_[slot].generation;
  ++shard.evictions;
  if (quota_) quota_->leave(slot);
  gone = shard.attachments.take_all(slot);
  if (options_.block_directory != nullptr) options_.block_directory->remove(hash, options_.tier);
}

std::optional<SlotId> BlockPool::victim_in(Shard& shard) TOWPATH_NO_THREAD_SAFETY_ANALYSIS {
  const auto may_go = [&](SlotId slot) {
    return shard.table.find(slots_[slot].identity.block.hash)->references == 0;
  };
  if (shard.policy) {
    const auto slot = shard.policy->victim(may_go);
    if (slot) shard.policy->remove(*slot);
    return slot;
  }
  while (shard.oldest != kNoSlot) {
    const SlotId slot = shard.oldest;
    unqueue(shard, slot);
    if (may_go(slot)) return slot;  // otherwise it was taken again, and is queued when let go
  }
  return std::nullopt;
}

void BlockPool::use(Shard& shard, SlotId slot,
                    std::uint32_t& references) TOWPATH_NO_THREAD_SAFETY_ANALYSIS {
  ++references;
  slots_[slot].spent = false;
  if (shard.policy) shard.policy->touch(slot);
  if (quota_) quota_->touch(slot);
}

void BlockPool::queue(Shard& shard, SlotId slot) TOWPATH_NO_THREAD_SAFETY_ANALYSIS {
  Slot& it = slots_[slot];
  it.older = shard.newest;
  it.newer = kNoSlot;
  it.queued = true;
  (shard.newest != kNoSlot ? slots_[shard.newest].newer : shard.oldest) = slot;
  shard.newest = slot;
}

void BlockPool::unqueue(Shard& shard, SlotId slot) TOWPATH_NO_THREAD_SAFETY_ANALYSIS {
  Slot& it = slots_[slot];
  (it.older != kNoSlot ? slots_[it.older].newer : shard.oldest) = it.newer;
  (it.newer != kNoSlot ? slots_[it.newer].older : shard.newest) = it.older;
  it.queued = false;
}

// Blocks ------------------------------------------------------------------------------------------

Result<BlockRef> BlockPool::register_block(CompleteBlock&& block, std::uint8_t priority) {
  CompleteBlock mine = std::move(block);
  if (mine.block_.pool_ != this)
    return error(Code::invalid_argument, "a block that was registered, or is another pool's",
                 "register each once, in the pool that allocated it");
  const BlockHash hash = mine.identity_.block.hash;
  const SlotId slot = mine.block_.slot_;
  Shard& shard = shard_of(hash);
  const MutexLock lock(shard.mutex);
  BlockTable::Entry* entry = shard.table.find(hash);
  if (entry != nullptr) {
    ++shard.duplicates;
    if (options_.duplicates == Duplicates::refuse) {
      use(shard, entry->slot, entry->references);
      return BlockRef(this, entry->slot);
    }
    slots_[slot].unlisted = true;
    slots_[slot].references = 1;
  } else if (shard.table.full()) {
    return error(Code::exhausted, cat("no place for block ", hex(hash), " in its shard's table"),
                 "make the pool larger; are hashes spread evenly?");
  } else {
    shard.table.insert(hash, slot).references = 1;
    slots_[slot].unlisted = slots_[slot].spent = false;
    if (shard.policy) shard.policy->insert(slot, mine.identity_.block);
    if (quota_) quota_->list({hash, slot, slots_[slot].generation});
    if (options_.block_directory != nullptr)
      options_.block_directory->add(hash, options_.tier, mine.identity_.block.parent,
                                    mine.identity_.block.tenant);
  }
  slots_[slot].identity = mine.identity_;
  slots_[slot].priority = priority;
  mine.block_.pool_ = nullptr;  // its slot is the block's now
  return BlockRef(this, slot);
}

std::vector<BlockRef> BlockPool::match(std::span<const BlockHash> hashes) {
  std::vector<BlockRef> found;
  found.reserve(hashes.size());
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    if (i == 0)
      for (std::size_t j = 1; j < std::min(kAhead, hashes.size()); ++j)
        shard_of(hashes[j]).table.prefetch(hashes[j]);
    if (i + kAhead < hashes.size()) shard_of(hashes[i + kAhead]).table.prefetch(hashes[i + kAhead]);
    BlockRef block = find(hashes[i]);
    if (!block) break;
    found.push_back(std::move(block));
  }
  return found;
}

std::vector<BlockRef> BlockPool::match(std::span<const CachedBlock> blocks) {
  std::vector<BlockHash> hashes(blocks.size());
  std::ranges::transform(blocks, hashes.begin(), &CachedBlock::hash);
  std::vector<BlockRef> found = match(hashes);
  const auto is_it = [](const BlockRef& here, const CachedBlock& wanted) {
    const std::optional<BlockHash>& parent = here.identity().block.parent;
    return !parent || !wanted.parent || *parent == *wanted.parent;
  };
  const auto other = std::ranges::mismatch(found, blocks, is_it).in1;
  if (other == found.end()) return found;
  {
    Shard& shard = shard_of(other->hash());
    const MutexLock lock(shard.mutex);
    ++shard.hash_collisions;
  }
  found.erase(other, found.end());
  return found;
}

std::vector<BlockRef> BlockPool::lineage(const BlockRef& block) {
  std::vector<BlockRef> back;
  // Of hashes that collide there could be a circle.
  for (BlockRef next = block; next && back.size() < slots_.size();) {
    const std::optional<BlockHash> parent = next.identity().block.parent;
    back.push_back(std::move(next));
    next = parent ? find(*parent) : BlockRef();
  }
  std::ranges::reverse(back);
  return back;
}

std::vector<BlockRef> BlockPool::scan(std::span<const BlockHash> hashes) {
  std::vector<BlockRef> found;
  found.reserve(hashes.size());
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    if (i + kAhead < hashes.size()) shard_of(hashes[i + kAhead]).table.prefetch(hashes[i + kAhead]);
    found.push_back(find(hashes[i]));
  }
  return found;
}

BlockRef BlockPool::find(BlockHash hash) {
  Shard& shard = shard_of(hash);
  const MutexLock lock(shard.mutex);
  ++shard.asked;
  BlockTable::Entry* const entry = shard.table.find(hash);
  if (entry == nullptr) return {};
  ++shard.found;
  use(shard, entry->slot, entry->references);
  return BlockRef(this, entry->slot);
}

void BlockPool::add_reference(SlotId slot) {
  Shard& shard = shard_of(slots_[slot].identity.block.hash);
  const MutexLock lock(shard.mutex);
  if (slots_[slot].unlisted)
    ++slots_[slot].references;
  else
    ++shard.table.find(slots_[slot].identity.block.hash)->references;
}

void BlockPool::release(SlotId slot, bool used) {
  Slot& it = slots_[slot];
  Shard& shard = shard_of(it.identity.block.hash);
  Values gone;
  WeakBlock spent;
  {
    const MutexLock lock(shard.mutex);
    if (!it.unlisted) {
      if (--shard.table.find(it.identity.block.hash)->references > 0) return;
      if (!shard.policy && (used || !it.queued)) {  // a policy knows all blocks, held or not
        if (it.queued) unqueue(shard, slot);
        queue(shard, slot);
      }
      if (!it.spent) return;
      spent = {.hash = it.identity.block.hash, .slot = slot, .generation = it.generation};
    } else {
      if (--it.references > 0) return;
      ++it.generation;
      gone = shard.attachments.take_all(slot);
    }
  }
  if (spent.slot != kNoSlot)
    line_up(spent);
  else
    free_slot(slot);
}

bool BlockPool::look(const WeakBlock& weak, const Visit& visit) {
  Shard& shard = shard_of(weak.hash);
  {
    const MutexLock lock(shard.mutex);
    std::uint32_t* const references = known(shard, weak);
    if (references == nullptr) return false;
    ++*references;
  }
  visit(slots_[weak.slot].identity, weak.slot);
  release(weak.slot, false);
  return true;
}

bool BlockPool::drop(BlockHash hash) {
  Shard& shard = shard_of(hash);
  SlotId slot = kNoSlot;
  Values gone;
  {
    const MutexLock lock(shard.mutex);
    const BlockTable::Entry* const entry = shard.table.find(hash);
    if (entry == nullptr) return false;
    slot = entry->slot;
    Slot& it = slots_[slot];
    it.unlisted = true;
    it.references = entry->references;
    ++it.generation;
    if (it.queued) unqueue(shard, slot);
    if (shard.policy) shard.policy->remove(slot);
    shard.table.erase(hash);
    if (options_.block_directory != nullptr) options_.block_directory->remove(hash, options_.tier);
    if (it.references > 0) return true;
    gone = shard.attachments.take_all(slot);
  }
  free_slot(slot);
  return true;
}

WeakBlock BlockPool::weak(const BlockRef& block) const {
  if (block.pool_ != this) return {};
  const BlockHash hash = block.hash();
  const MutexLock lock(shard_of(hash).mutex);
  return {hash, block.slot(), slots_[block.slot()].generation};
}

// A slot's generation is its shard's to read only while the slot holds this hash.
std::uint32_t* BlockPool::known(Shard& shard,
                                const WeakBlock& weak) TOWPATH_NO_THREAD_SAFETY_ANALYSIS {
  BlockTable::Entry* const entry = shard.table.find(weak.hash);
  const bool same = entry != nullptr && entry->slot == weak.slot &&
                    slots_[weak.slot].generation == weak.generation;
  return same ? &entry->references : nullptr;
}

BlockRef BlockPool::upgrade(const WeakBlock& weak) {
  Shard& shard = shard_of(weak.hash);
  const MutexLock lock(shard.mutex);
  std::uint32_t* const references = known(shard, weak);
  if (references == nullptr) return {};
  use(shard, weak.slot, *references);
  return BlockRef(this, weak.slot);
}

bool BlockPool::attach_value(const BlockRef& block, std::type_index type, Value value) {
  if (block.pool_ != this || value == nullptr) return false;
  Shard& shard = shard_of(block.hash());
  const MutexLock lock(shard.mutex);
  return shard.attachments.add(block.slot(), type, std::move(value));
}

BlockPool::Value BlockPool::attached_value(const BlockRef& block, std::type_index type) const {
  if (block.pool_ != this) return nullptr;
  const Shard& shard = shard_of(block.hash());
  const MutexLock lock(shard.mutex);
  return shard.attachments.find(block.slot(), type);
}

BlockPool::Value BlockPool::detach_value(const BlockRef& block, std::type_index type) {
  if (block.pool_ != this) return nullptr;
  Shard& shard = shard_of(block.hash());
  const MutexLock lock(shard.mutex);
  return shard.attachments.take(block.slot(), type);
}

BlockPool::Figures BlockPool::figures() const {
  Figures all{.slots = options_.slots};
  for (std::size_t i = 0; i < shard_count_; ++i) {
    const Shard& shard = shards_[i];
    const MutexLock lock(shard.mutex);
    all.registered += static_cast<SlotId>(shard.table.size());
    all.held += static_cast<SlotId>(shard.table.held());
    all.evictions += shard.evictions;
    all.duplicates += shard.duplicates;
    all.asked += shard.asked;
    all.found += shard.found;
    all.hash_collisions += shard.hash_collisions;
  }
  if (quota_) all.quota = quota_->figures();
  const MutexLock lock(free_mutex_);
  all.free = static_cast<SlotId>(free_.size());
  return all;
}

std::uint64_t BlockPool::evicted_over_quota() const noexcept {
  return quota_ ? quota_->evictions() : 0;
}

std::uint64_t BlockPool::registered() const {
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < shard_count_; ++i) {
    const MutexLock lock(shards_[i].mutex);
    all += shards_[i].table.size();
  }
  return all;
}

std::uint64_t BlockPool::evictions() const {
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < shard_count_; ++i) {
    const MutexLock lock(shards_[i].mutex);
    all += shards_[i].evictions;
  }
  return all;
}

// Handles -----------------------------------------------------------------------------------------

PartialBlock::~PartialBlock() {
  if (pool_ != nullptr) pool_->free_slot(slot_);
}

BlockRef::BlockRef(const BlockRef& other) : pool_(other.pool_), slot_(other.slot_) {
  if (pool_ != nullptr) pool_->add_reference(slot_);
}

BlockRef::~BlockRef() {
  if (pool_ != nullptr) pool_->release(slot_);
}

// Written before the block was registered, and not again while it is held.
const BlockIdentity& BlockRef::identity() const { return pool_->slots_[slot_].identity; }
std::uint8_t BlockRef::priority() const { return pool_->slots_[slot_].priority; }

}  // namespace towpath::kv
