// SlotQueues: the slots of a pool, each in at most one of a few queues. All steps are constant and
// nothing is allocated after the start. Thread: none of its own.
#pragma once

#include <cstdint>
#include <vector>

#include <towpath/kv/block_id.h>

namespace towpath::kv {

class SlotQueues {
 public:
  using Queue = std::uint16_t;
  static constexpr Queue kNone = UINT16_MAX;

  SlotQueues(SlotId slots, Queue queues) : links_(slots), ends_(queues) {}

  void push_back(Queue queue, SlotId slot);
  void remove(SlotId slot);
  void move_to_back(Queue queue, SlotId slot) {
    remove(slot);
    push_back(queue, slot);
  }

  SlotId front(Queue queue) const { return ends_[queue].front; }
  SlotId back(Queue queue) const { return ends_[queue].back; }
  /// Behind `slot` in its queue; kNoSlot at the end.
  SlotId next(SlotId slot) const { return links_[slot].next; }
  /// Before it; kNoSlot at the begin.
  SlotId previous(SlotId slot) const { return links_[slot].previous; }
  /// kNone: in no queue.
  Queue queue_of(SlotId slot) const { return links_[slot].queue; }
  SlotId size(Queue queue) const { return ends_[queue].size; }
  SlotId slots() const { return static_cast<SlotId>(links_.size()); }

  /// The first of a queue that pleases, or kNoSlot.
  template <typename Pleases>
  SlotId find(Queue queue, const Pleases& pleases) const {
    SlotId slot = front(queue);
    while (slot != kNoSlot && !pleases(slot)) slot = next(slot);
    return slot;
  }

 private:
  struct Link {
    SlotId previous = kNoSlot;
    SlotId next = kNoSlot;
    Queue queue = kNone;
  };
  struct Ends {
    SlotId front = kNoSlot;
    SlotId back = kNoSlot;
    SlotId size = 0;
  };

  std::vector<Link> links_;
  std::vector<Ends> ends_;
};

}  // namespace towpath::kv
