#include <algorithm>
#include <utility>

#include <towpath/kv/blocks/tenant_quota.h>

namespace towpath::kv {

using run::MutexLock;

bool TenantQuota::charge(TenantId tenant) {
  const MutexLock lock(mutex_);
  Tenant& it = tenants_[tenant];
  if (it.slots >= most_) return false;
  ++it.slots;
  return true;
}

void TenantQuota::refund(TenantId tenant) {
  const MutexLock lock(mutex_);
  take_off(tenant);
}

/// Tenants without slots are forgotten: there may be many in a server's life.
void TenantQuota::take_off(TenantId tenant) {
  const auto it = tenants_.find(tenant);
  if (--it->second.slots == 0) tenants_.erase(it);
}

void TenantQuota::assign(SlotId slot, TenantId tenant) {
  const MutexLock lock(mutex_);
  slots_[slot] = {.tenant = tenant, .is_charged = true};
}

void TenantQuota::list(const WeakBlock& block) {
  const MutexLock lock(mutex_);
  slots_[block.slot].block = block;
  link(block.slot);
}

void TenantQuota::touch(SlotId slot) {
  const MutexLock lock(mutex_);
  if (!slots_[slot].is_listed) return;
  unlink(slot);
  link(slot);
}

void TenantQuota::hand_on(SlotId slot) {
  const MutexLock lock(mutex_);
  unlink(slot);
  slots_[slot].is_charged = false;
}

void TenantQuota::leave(SlotId slot) {
  const MutexLock lock(mutex_);
  if (!slots_[slot].is_charged) return;
  unlink(slot);
  slots_[slot].is_charged = false;
  take_off(slots_[slot].tenant);
}

void TenantQuota::link(SlotId slot) {
  Slot& it = slots_[slot];
  Tenant& tenant = tenants_[it.tenant];
  it.older = tenant.newest;
  it.newer = kNoSlot;
  it.is_listed = true;
  (tenant.newest != kNoSlot ? slots_[tenant.newest].newer : tenant.oldest) = slot;
  tenant.newest = slot;
}

void TenantQuota::unlink(SlotId slot) {
  Slot& it = slots_[slot];
  if (!std::exchange(it.is_listed, false)) return;
  Tenant& tenant = tenants_[it.tenant];
  (it.older != kNoSlot ? slots_[it.older].newer : tenant.oldest) = it.newer;
  (it.newer != kNoSlot ? slots_[it.newer].older : tenant.newest) = it.older;
}

std::vector<WeakBlock> TenantQuota::oldest(TenantId tenant, std::size_t most) const {
  const MutexLock lock(mutex_);
  std::vector<WeakBlock> blocks;
  const auto it = tenants_.find(tenant);
  if (it == tenants_.end()) return blocks;
  for (SlotId slot = it->second.oldest; slot != kNoSlot && blocks.size() < most;
       slot = slots_[slot].newer)
    blocks.push_back(slots_[slot].block);
  return blocks;
}

QuotaFigures TenantQuota::figures() const {
  const MutexLock lock(mutex_);
  QuotaFigures all{.most = most_, .tenants = tenants_.size(), .evictions = evictions()};
  for (const auto& [tenant, it] : tenants_) all.largest = std::max(all.largest, it.slots);
  return all;
}

}  // namespace towpath::kv
