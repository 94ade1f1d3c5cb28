// How a BlockPool makes room for a block.
#include <algorithm>

#include <towpath/core/format.h>
#include <towpath/kv/blocks/block_pool.h>
#include <towpath/kv/blocks/tenant_quota.h>

namespace towpath::kv {

using run::MutexLock;

Result<std::vector<PartialBlock>> BlockPool::allocate(SlotId count, std::vector<Evicted>* evicted,
                                                      TenantId tenant) {
  std::vector<PartialBlock> blocks;
  blocks.reserve(std::min<std::size_t>(count, slots_.size()));
  while (blocks.size() < count) {
    const Room room = quota_ ? room_for(tenant) : room_anywhere();
    if (room.was_evicted && evicted != nullptr)
      evicted->push_back({slots_[*room.slot].identity, *room.slot});
    if (!room.slot)
      return error(
          Code::exhausted,
          cat(blocks.size(), " of ", count, " slots could be had of ", slots_.size(),
              quota_ ? "; all others are held, or of other tenants" : "; all others are held"),
          "let blocks go first, or make the pool larger");
    blocks.push_back(PartialBlock(this, *room.slot));
  }
  return blocks;
}

BlockPool::Room BlockPool::room_anywhere() {
  if (const auto slot = take_free()) return {.slot = slot};
  const auto slot = evict_one();
  return {.slot = slot, .was_evicted = slot.has_value()};
}

std::optional<SlotId> BlockPool::take_free() {
  const MutexLock lock(free_mutex_);
  if (free_.empty()) return std::nullopt;
  const SlotId slot = free_.back();
  free_.pop_back();
  return slot;
}

/// Those that were used since are as all others; one that is held is lined up again.
std::optional<SlotId> BlockPool::evict_spent() {
  while (spent_count_.load(std::memory_order_relaxed) > 0) {
    WeakBlock next;
    {
      const MutexLock lock(spent_mutex_);
      if (spent_.empty()) return std::nullopt;
      next = spent_.front();
      spent_.pop_front();
      spent_count_.store(spent_.size(), std::memory_order_relaxed);
    }
    if (evict_if(next, [this](SlotId slot) { return slots_[slot].spent; })) return next.slot;
  }
  return std::nullopt;
}

/// A tenant that has its share evicts of its own, and others' blocks never.
BlockPool::Room BlockPool::room_for(TenantId tenant) {
  Room room;
  if (quota_->charge(tenant)) {
    room = room_anywhere();
  } else {
    room.slot = evict_own(tenant);
    room.was_evicted = room.slot.has_value();
    if (!room.slot) return {};
  }
  if (room.slot)
    quota_->assign(*room.slot, tenant);
  else
    quota_->refund(tenant);
  return room;
}

/// What is held is passed over: it is little, as a rule. The block's charge is the caller's then,
/// so that nobody else of the tenant has it meanwhile.
std::optional<SlotId> BlockPool::evict_own(TenantId tenant) {
  for (std::size_t most = 8;; most *= 4) {
    const std::vector<WeakBlock> blocks = quota_->oldest(tenant, most);
    for (const WeakBlock& block : blocks) {
      const auto may_go = [&](SlotId slot) {
        quota_->hand_on(slot);
        return true;
      };
      if (!evict_if(block, may_go)) continue;
      quota_->count_eviction();
      return block.slot;
    }
    if (blocks.size() < most) return std::nullopt;
  }
}

}  // namespace towpath::kv
