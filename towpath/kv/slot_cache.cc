#include <towpath/core/check.h>
#include <towpath/core/text.h>
#include <towpath/kv/slot_cache.h>

namespace towpath::kv {

SlotCache::SlotCache(SlotId slots) : slots_(slots) {
  free_.reserve(slots);
  for (SlotId slot = slots; slot-- > 0;) free_.push_back(slot);
  by_hash_.reserve(slots);
}

std::optional<SlotId> SlotCache::find(BlockHash hash) {
  const auto found = by_hash_.find(hash);
  if (found == by_hash_.end()) return std::nullopt;
  if (is_evictable(slots_[found->second])) {
    unlink(found->second);
    link_newest(found->second);
  }
  return found->second;
}

Result<SlotCache::Reserved> SlotCache::reserve(BlockHash hash) {
  if (by_hash_.contains(hash) || filling_.contains(hash))
    return error(Code::already_exists, cat("block ", hex(hash), " has a slot already"));
  Reserved reserved;
  if (!free_.empty()) {
    reserved.slot = free_.back();
    free_.pop_back();
  } else if (oldest_ != kNone) {
    reserved.slot = oldest_;
    const Slot& old = slots_[oldest_];
    reserved.evicted = Evicted{old.hash, oldest_, old.digest};
    by_hash_.erase(old.hash);
    unlink(oldest_);
    ++evictions_;
  } else {
    return error(Code::exhausted, cat("all ", slots_.size(), " slots are pinned or being filled"),
                 "let requests end first, or make the pool larger");
  }
  Slot& slot = slots_[reserved.slot];
  slot = Slot{.state = State::filling, .hash = hash};
  filling_.emplace(hash, reserved.slot);
  return reserved;
}

void SlotCache::publish(SlotId id, const Digest& digest) {
  Slot& slot = slots_[id];
  TOWPATH_CHECK(slot.state == State::filling, "only a slot that was reserved is published");
  filling_.erase(slot.hash);
  slot.state = State::ready;
  slot.digest = digest;
  by_hash_.emplace(slot.hash, id);
  if (slot.pins == 0) link_newest(id);
}

void SlotCache::abandon(SlotId id) {
  Slot& slot = slots_[id];
  TOWPATH_CHECK(slot.state == State::filling, "only a slot that was reserved is abandoned");
  filling_.erase(slot.hash);
  slot.state = State::dropped;
  if (slot.pins == 0) release(id);
}

void SlotCache::drop(SlotId id) {
  Slot& slot = slots_[id];
  TOWPATH_CHECK(slot.state == State::ready, "only a ready block is dropped");
  if (slot.pins == 0) unlink(id);
  by_hash_.erase(slot.hash);
  slot.state = State::dropped;
  if (slot.pins == 0) release(id);
}

void SlotCache::pin(SlotId id) {
  Slot& slot = slots_[id];
  TOWPATH_CHECK(slot.state != State::free, "a free slot is not pinned");
  if (is_evictable(slot)) unlink(id);
  ++slot.pins;
}

void SlotCache::unpin(SlotId id) {
  Slot& slot = slots_[id];
  TOWPATH_CHECK(slot.pins > 0, "unpinned more often than pinned");
  if (--slot.pins > 0) return;
  if (slot.state == State::ready) link_newest(id);
  if (slot.state == State::dropped) release(id);
}

void SlotCache::release(SlotId id) {
  slots_[id] = Slot{};
  free_.push_back(id);
}

void SlotCache::link_newest(SlotId id) {
  slots_[id].older = newest_;
  slots_[id].newer = kNone;
  (newest_ != kNone ? slots_[newest_].newer : oldest_) = id;
  newest_ = id;
}

void SlotCache::unlink(SlotId id) {
  Slot& slot = slots_[id];
  (slot.older != kNone ? slots_[slot.older].newer : oldest_) = slot.newer;
  (slot.newer != kNone ? slots_[slot.newer].older : newest_) = slot.older;
  slot.older = slot.newer = kNone;
}

}  // namespace towpath::kv
