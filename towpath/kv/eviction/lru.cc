// The two policies that know only one queue. LRU: who was not used for longest goes. FIFO: who came
// first goes. No parameters. Thread: none of its own.
#include <towpath/kv/eviction/policies.h>
#include <towpath/kv/eviction/slot_queues.h>

namespace towpath::kv {
namespace {

class Lru final : public EvictionPolicy {
 public:
  enum class OnTouch : std::uint8_t { to_the_end, stay };

  Lru(SlotId slots, OnTouch on_touch) : queue_(slots, 1), on_touch_(on_touch) {}

  void insert(SlotId slot, const CachedBlock&) override { queue_.push_back(0, slot); }
  void touch(SlotId slot) override {
    if (on_touch_ == OnTouch::to_the_end) queue_.move_to_back(0, slot);
  }
  void remove(SlotId slot) override { queue_.remove(slot); }
  std::optional<SlotId> victim(const MayGo& may_go) override {
    const SlotId slot = queue_.find(0, may_go);
    return slot == kNoSlot ? std::nullopt : std::optional(slot);
  }

 private:
  SlotQueues queue_;
  const OnTouch on_touch_;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_lru(SlotId slots) {
  return std::make_unique<Lru>(slots, Lru::OnTouch::to_the_end);
}

std::unique_ptr<EvictionPolicy> make_fifo(SlotId slots) {
  return std::make_unique<Lru>(slots, Lru::OnTouch::stay);
}

}  // namespace towpath::kv
