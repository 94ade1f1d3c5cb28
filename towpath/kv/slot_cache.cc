#include <towpath/core/check.h>
#include <towpath/core/text.h>
#include <towpath/kv/slot_cache.h>

namespace towpath::kv {

SlotCache::SlotCache(SlotId slots, PolicyKind policy)
    : slots_(slots), policy_(make_policy(policy, slots)) {
  free_.reserve(slots);
  for (SlotId slot = slots; slot-- > 0;) free_.push_back(slot);
  by_hash_.reserve(slots);
}

std::optional<SlotId> SlotCache::find(BlockHash hash) {
  const auto found = by_hash_.find(hash);
  if (found == by_hash_.end()) return std::nullopt;
  policy_->touch(found->second);
  return found->second;
}

Result<SlotCache::Reserved> SlotCache::reserve(const CachedBlock& block) {
  if (by_hash_.contains(block.hash) || filling_.contains(block.hash))
    return error(Code::already_exists, cat("block ", hex(block.hash), " has a slot already"));
  Reserved reserved;
  if (!free_.empty()) {
    reserved.slot = free_.back();
    free_.pop_back();
  } else if (const auto victim = evict()) {
    reserved.slot = *victim;
    const Slot& old = slots_[*victim];
    reserved.evicted = Evicted{old.block, *victim, old.digest};
  } else {
    return error(Code::exhausted, cat("all ", slots_.size(), " slots are pinned or being filled"),
                 "let requests end first, or make the pool larger");
  }
  slots_[reserved.slot] = Slot{.state = State::filling, .block = block};
  filling_.emplace(block.hash, reserved.slot);
  return reserved;
}

std::optional<SlotId> SlotCache::evict() {
  const auto victim = policy_->victim([this](SlotId slot) { return slots_[slot].pins == 0; });
  if (!victim) return std::nullopt;
  policy_->remove(*victim);
  by_hash_.erase(slots_[*victim].block.hash);
  ++evictions_;
  return victim;
}

void SlotCache::publish(SlotId id, const Digest& digest) {
  Slot& slot = slots_[id];
  TOWPATH_CHECK(slot.state == State::filling, "only a slot that was reserved is published");
  filling_.erase(slot.block.hash);
  slot.state = State::ready;
  slot.digest = digest;
  by_hash_.emplace(slot.block.hash, id);
  policy_->insert(id, slot.block);
}

void SlotCache::abandon(SlotId id) {
  Slot& slot = slots_[id];
  TOWPATH_CHECK(slot.state == State::filling, "only a slot that was reserved is abandoned");
  filling_.erase(slot.block.hash);
  slot.state = State::dropped;
  if (slot.pins == 0) release(id);
}

void SlotCache::drop(SlotId id) {
  Slot& slot = slots_[id];
  TOWPATH_CHECK(slot.state == State::ready, "only a ready block is dropped");
  policy_->remove(id);
  by_hash_.erase(slot.block.hash);
  slot.state = State::dropped;
  if (slot.pins == 0) release(id);
}

void SlotCache::pin(SlotId id) {
  Slot& slot = slots_[id];
  TOWPATH_CHECK(slot.state != State::free, "a free slot is not pinned");
  ++slot.pins;
}

void SlotCache::unpin(SlotId id) {
  Slot& slot = slots_[id];
  TOWPATH_CHECK(slot.pins > 0, "unpinned more often than pinned");
  if (--slot.pins == 0 && slot.state == State::dropped) release(id);
}

void SlotCache::release(SlotId id) {
  slots_[id] = Slot{};
  free_.push_back(id);
}

}  // namespace towpath::kv
