// S3-FIFO (Yang et al., SOSP'23): new blocks wait in a small queue, and most leave from there after
// one use. Who was used again moves to the main queue, where each use grants a further round.
// Who left the small queue too early is remembered and comes back into the main queue.
//
// Parameters, all the paper's: a tenth of the slots for the small queue, more than one use to be
// moved, uses counted up to 3, as many ghosts as the main queue has slots.
// Thread: none of its own.
#include <algorithm>
#include <vector>

#include <towpath/kv/eviction/ghosts.h>
#include <towpath/kv/eviction/policies.h>
#include <towpath/kv/eviction/slot_queues.h>

namespace towpath::kv {
namespace {

constexpr SlotQueues::Queue kSmall = 0;
constexpr SlotQueues::Queue kMain = 1;
constexpr std::uint8_t kMostUses = 3;

SlotId a_tenth_of(SlotId slots) { return std::max<SlotId>(1, slots / 10); }

class S3Fifo final : public EvictionPolicy {
 public:
  explicit S3Fifo(SlotId slots);

  void insert(SlotId slot, const CachedBlock& block) override;
  void touch(SlotId slot) override;
  void remove(SlotId slot) override;
  std::optional<SlotId> victim(const MayGo& may_go) override;

 private:
  struct Entry {
    BlockHash hash = 0;
    std::uint8_t uses = 0;
  };
  SlotId pick_small(const MayGo& may_go);
  SlotId pick_main(const MayGo& may_go);

  SlotQueues queues_;
  std::vector<Entry> entries_;
  Ghosts ghosts_;
  const SlotId small_target_;
};

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

}  // namespace

std::unique_ptr<EvictionPolicy> make_s3_fifo(SlotId slots) {
  return std::make_unique<S3Fifo>(slots);
}

}  // namespace towpath::kv
