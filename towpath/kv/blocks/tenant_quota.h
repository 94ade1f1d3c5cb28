// TenantQuota: how many slots of a pool each tenant has, and which of its blocks was used longest
// ago, so that a tenant that has its share makes room among its own.
//
//   charge(tenant) --> assign(slot, tenant) --> list(block) --> touch() ... --> leave(slot)
//          ^                                                         |
//          `-------------------------- hand_on(slot) ----------------'
//
// It decides nothing about others' blocks, and evicts nothing: the pool does. A slot is charged to
// one tenant from assign() to leave() or hand_on(). Thread: any; the pool calls it with a shard's
// lock held or without.
#pragma once

#include <atomic>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include <towpath/kv/blocks/block_pool.h>
#include <towpath/kv/figures.h>
#include <towpath/run/mutex.h>

namespace towpath::kv {

class TenantQuota {
 public:
  /// Of `slots`, each tenant has at most `most`; those of no tenant together, too.
  TenantQuota(SlotId slots, SlotId most) : most_(most), slots_(slots) {}

  /// A slot for it, which is not known yet. False: it has its share.
  bool charge(TenantId tenant);
  /// There was no slot.
  void refund(TenantId tenant);
  /// The slot that was charged to it.
  void assign(SlotId slot, TenantId tenant);
  /// A block that others find is in the slot now, just used.
  void list(const WeakBlock& block);
  void touch(SlotId slot);
  /// The slot is nobody's, and its charge the caller's, as after charge().
  void hand_on(SlotId slot);
  /// The slot is nobody's. Without effect where it is so already.
  void leave(SlotId slot);

  /// The tenant's listed blocks, used longest ago first; at most so many.
  std::vector<WeakBlock> oldest(TenantId tenant, std::size_t most) const;
  void count_eviction() noexcept { evictions_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t evictions() const noexcept { return evictions_.load(std::memory_order_relaxed); }

  QuotaFigures figures() const;

 private:
  struct Slot {
    WeakBlock block;
    TenantId tenant = 0;
    SlotId older = kNoSlot, newer = kNoSlot;
    bool is_charged = false, is_listed = false;
  };
  struct Tenant {
    SlotId slots = 0;
    SlotId oldest = kNoSlot, newest = kNoSlot;
  };
  void link(SlotId slot) TOWPATH_REQUIRES(mutex_);
  void unlink(SlotId slot) TOWPATH_REQUIRES(mutex_);
  void take_off(TenantId tenant) TOWPATH_REQUIRES(mutex_);

  const SlotId most_;
  mutable run::Mutex mutex_;  // after a shard's
  std::vector<Slot> slots_ TOWPATH_GUARDED_BY(mutex_);
  std::unordered_map<TenantId, Tenant> tenants_ TOWPATH_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> evictions_{0};  // a figure
};

}  // namespace towpath::kv
