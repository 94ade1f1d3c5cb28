#include <algorithm>
#include <numeric>

#include <towpath/kv/eviction/hit_density.h>

namespace towpath::kv {
namespace {

// Per class: a queue for each epoch that the odds look back on, in a ring.
constexpr std::uint64_t kRing = ReuseOdds::kAges;

SlotQueues::Queue queue_for(const ReuseOdds::Use& use) {
  return static_cast<SlotQueues::Queue>(use.use_class * kRing + use.epoch % kRing);
}

}  // namespace

HitDensity::HitDensity(SlotId slots)
    : odds_(slots),
      queues_(slots, static_cast<SlotQueues::Queue>(kRing * ReuseOdds::kClasses)),
      hashes_(slots),
      ranking_(kRing * ReuseOdds::kClasses) {
  std::iota(ranking_.begin(), ranking_.end(), SlotQueues::Queue{0});
}

void HitDensity::insert(SlotId slot, const CachedBlock& block) {
  hashes_[slot] = block.hash;
  use(slot);
}

void HitDensity::touch(SlotId slot) {
  queues_.remove(slot);
  use(slot);
}

void HitDensity::use(SlotId slot) {
  const std::uint64_t before = odds_.epoch();
  const ReuseOdds::Use use = odds_.count(hashes_[slot]);
  if (odds_.epoch() != before) age_the_oldest();
  queues_.push_back(queue_for(use), slot);
}

void HitDensity::age_the_oldest() {
  for (std::uint8_t use_class = 0; use_class < ReuseOdds::kClasses; ++use_class) {
    const auto from = queue_for({odds_.epoch(), use_class});
    const auto into = queue_for({odds_.epoch() + 1, use_class});
    while (queues_.front(from) != kNoSlot) queues_.move_to_back(into, queues_.front(from));
  }
}

void HitDensity::rank() {
  if (ranked_at_ == odds_.epoch()) return;
  ranked_at_ = odds_.epoch();
  std::ranges::sort(ranking_, {}, [&](SlotQueues::Queue queue) {
    const std::uint64_t age = (odds_.epoch() % kRing + kRing - queue % kRing) % kRing;
    const auto use_class = static_cast<std::uint8_t>(queue / kRing);
    return odds_.worth_at(use_class, age);
  });
}

std::optional<SlotId> HitDensity::victim(const MayGo& may_go) {
  rank();
  for (const SlotQueues::Queue queue : ranking_) {
    SlotId slot = queues_.back(queue);
    while (slot != kNoSlot && !may_go(slot)) slot = queues_.previous(slot);
    if (slot != kNoSlot) return slot;
  }
  return std::nullopt;
}

}  // namespace towpath::kv
