#include <towpath/core/check.h>
#include <towpath/kv/eviction/slot_queues.h>

namespace towpath::kv {

void SlotQueues::push_back(Queue queue, SlotId slot) {
  Link& link = links_[slot];
  TOWPATH_CHECK(link.queue == kNone, "a slot stands in one queue at a time");
  Ends& ends = ends_[queue];
  link = {.previous = ends.back, .next = kNoSlot, .queue = queue};
  (ends.back != kNoSlot ? links_[ends.back].next : ends.front) = slot;
  ends.back = slot;
  ++ends.size;
}

void SlotQueues::remove(SlotId slot) {
  Link& link = links_[slot];
  TOWPATH_CHECK(link.queue != kNone, "a slot that stands in no queue leaves none");
  Ends& ends = ends_[link.queue];
  (link.previous != kNoSlot ? links_[link.previous].next : ends.front) = link.next;
  (link.next != kNoSlot ? links_[link.next].previous : ends.back) = link.previous;
  --ends.size;
  link = Link{};
}

}  // namespace towpath::kv
