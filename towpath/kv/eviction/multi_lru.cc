// Four LRU queues, cold to very hot, by how often a block was used lately (FrequencySketch); who
// goes is the oldest of the coldest queue that has one. Blocks move up when used and down when the
// sketch forgets.
//
// Parameters: the thresholds 3, 8 and 15 between the queues are those of Dynamo's KVBM, so that its
// users find what they know; the sketch's are TinyLFU's.
// Thread: none of its own.
#include <array>
#include <vector>

#include <towpath/kv/eviction/frequency_sketch.h>
#include <towpath/kv/eviction/policies.h>
#include <towpath/kv/eviction/slot_queues.h>

namespace towpath::kv {
namespace {

constexpr std::array<std::uint8_t, 3> kLevelBegins{3, 8, 15};
constexpr SlotQueues::Queue kLevels = kLevelBegins.size() + 1;

class MultiLru final : public EvictionPolicy {
 public:
  explicit MultiLru(SlotId slots);

  void insert(SlotId slot, const CachedBlock& block) override;
  void touch(SlotId slot) override;
  void remove(SlotId slot) override { queues_.remove(slot); }
  std::optional<SlotId> victim(const MayGo& may_go) override;

 private:
  SlotQueues::Queue level_of(BlockHash hash) const;
  void cool_down();

  SlotQueues queues_;
  std::vector<BlockHash> hashes_;
  FrequencySketch sketch_;
};

MultiLru::MultiLru(SlotId slots) : queues_(slots, kLevels), hashes_(slots), sketch_(slots) {}

SlotQueues::Queue MultiLru::level_of(BlockHash hash) const {
  const std::uint8_t uses = sketch_.estimate(hash);
  SlotQueues::Queue level = 0;
  while (level < kLevelBegins.size() && uses >= kLevelBegins[level]) ++level;
  return level;
}

void MultiLru::insert(SlotId slot, const CachedBlock& block) {
  const bool halved = sketch_.count(block.hash);
  hashes_[slot] = block.hash;
  queues_.push_back(level_of(block.hash), slot);
  if (halved) cool_down();
}

void MultiLru::touch(SlotId slot) {
  const bool halved = sketch_.count(hashes_[slot]);
  queues_.move_to_back(level_of(hashes_[slot]), slot);
  if (halved) cool_down();
}

// From the coldest on, so that each level's order of use stays and the cooled stand behind it.
void MultiLru::cool_down() {
  for (SlotQueues::Queue level = 1; level < kLevels; ++level) {
    SlotId slot = queues_.front(level);
    while (slot != kNoSlot) {
      const SlotId next = queues_.next(slot);
      if (const auto now = level_of(hashes_[slot]); now < level) queues_.move_to_back(now, slot);
      slot = next;
    }
  }
}

std::optional<SlotId> MultiLru::victim(const MayGo& may_go) {
  for (SlotQueues::Queue level = 0; level < kLevels; ++level)
    if (const SlotId slot = queues_.find(level, may_go); slot != kNoSlot) return slot;
  return std::nullopt;
}

}  // namespace

std::unique_ptr<EvictionPolicy> make_multi_lru(SlotId slots) {
  return std::make_unique<MultiLru>(slots);
}

}  // namespace towpath::kv
