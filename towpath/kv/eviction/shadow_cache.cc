#include <towpath/kv/eviction/shadow_cache.h>

namespace towpath::kv {

ShadowCache::ShadowCache(SlotId slots, std::unique_ptr<EvictionPolicy> policy)
    : policy_(std::move(policy)), hashes_(slots) {
  slots_by_hash_.reserve(slots);
  free_.reserve(slots);
  for (SlotId slot = slots; slot-- > 0;) free_.push_back(slot);
}

bool ShadowCache::use(const CachedBlock& block) {
  const bool was_here = touch_or_insert(block);
  const bool goes_on = block.parent && last_ == block.parent;
  last_counts_ = was_here && (!goes_on || last_counts_);
  last_ = block.hash;
  return last_counts_;
}

bool ShadowCache::touch_or_insert(const CachedBlock& block) {
  if (const auto found = slots_by_hash_.find(block.hash); found != slots_by_hash_.end()) {
    policy_->touch(found->second);
    return true;
  }
  if (hashes_.empty()) return false;
  if (free_.empty()) {
    const auto slot = policy_->victim([](SlotId) { return true; });
    policy_->remove(*slot);
    slots_by_hash_.erase(hashes_[*slot]);
    free_.push_back(*slot);
  }
  const SlotId slot = free_.back();
  free_.pop_back();
  hashes_[slot] = block.hash;
  slots_by_hash_.emplace(block.hash, slot);
  policy_->insert(slot, block);
  return false;
}

}  // namespace towpath::kv
