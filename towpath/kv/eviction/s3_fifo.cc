#include <algorithm>

#include <towpath/kv/eviction/s3_fifo.h>

namespace towpath::kv {
namespace {

constexpr SlotQueues::Queue kSmall = 0;
constexpr SlotQueues::Queue kMain = 1;
constexpr std::uint8_t kMostUses = 3;

SlotId a_tenth_of(SlotId slots) { return std::max<SlotId>(1, slots / 10); }

}  // namespace

S3Fifo::S3Fifo(SlotId slots)
    : queues_(slots, 2),
      entries_(slots),
      ghosts_(slots - std::min(slots, a_tenth_of(slots))),
      small_target_(a_tenth_of(slots)) {}

void S3Fifo::insert(SlotId slot, const CachedBlock& block) {
  entries_[slot] = {block.hash, 0};
  queues_.push_back(ghosts_.take(block.hash) ? kMain : kSmall, slot);
}

void S3Fifo::touch(SlotId slot) {
  std::uint8_t& uses = entries_[slot].uses;
  uses = std::min<std::uint8_t>(uses + 1, kMostUses);
}

void S3Fifo::remove(SlotId slot) {
  if (queues_.queue_of(slot) == kSmall) ghosts_.add(entries_[slot].hash);
  queues_.remove(slot);
}

std::optional<SlotId> S3Fifo::victim(const MayGo& may_go) {
  const bool small_first = queues_.size(kSmall) >= small_target_ || queues_.size(kMain) == 0;
  SlotId slot = small_first ? pick_small(may_go) : pick_main(may_go);
  if (slot == kNoSlot) slot = small_first ? pick_main(may_go) : pick_small(may_go);
  if (slot == kNoSlot) return std::nullopt;
  return slot;
}

SlotId S3Fifo::pick_small(const MayGo& may_go) {
  SlotId slot = queues_.front(kSmall);
  while (slot != kNoSlot) {
    const SlotId next = queues_.next(slot);
    if (entries_[slot].uses > 1) {
      entries_[slot].uses = 0;
      queues_.move_to_back(kMain, slot);
    } else if (may_go(slot)) {
      return slot;
    }
    slot = next;
  }
  return kNoSlot;
}

SlotId S3Fifo::pick_main(const MayGo& may_go) {
  // Each round takes a use from all, so after the most uses nobody has any.
  for (int round = 0; round <= kMostUses; ++round) {
    SlotId slot = queues_.front(kMain);
    for (SlotId left = queues_.size(kMain); left > 0; --left) {
      const SlotId next = queues_.next(slot);
      if (entries_[slot].uses > 0) {
        --entries_[slot].uses;
        queues_.move_to_back(kMain, slot);
      } else if (may_go(slot)) {
        return slot;
      }
      slot = next != kNoSlot ? next : queues_.front(kMain);
    }
  }
  return kNoSlot;
}

}  // namespace towpath::kv
