#include <array>

#include <towpath/kv/eviction/multi_lru.h>

namespace towpath::kv {
namespace {

constexpr std::array<std::uint8_t, 3> kLevelBegins{3, 8, 15};
constexpr SlotQueues::Queue kLevels = kLevelBegins.size() + 1;

}  // namespace

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

}  // namespace towpath::kv
