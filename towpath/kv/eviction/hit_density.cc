// Hit density: the block goes whose room brings the fewest hits, by what was learned of how age and
// number of uses foretell the next (ReuseOdds). Of equals, the one used last goes: within a prompt
// that is the end of the chain. Parameters: those of ReuseOdds.
// Cost: constant per use; a look at some hundred queues per eviction. Thread: none of its own.
#include <algorithm>
#include <numeric>
#include <vector>

#include <towpath/kv/eviction/policies.h>
#include <towpath/kv/eviction/reuse_odds.h>
#include <towpath/kv/eviction/slot_queues.h>

namespace towpath::kv {
namespace {

// Per class: a queue for each epoch that the odds look back on, in a ring.
constexpr std::uint64_t kRing = ReuseOdds::kAges;

SlotQueues::Queue queue_for(std::uint64_t use_class, std::uint64_t epoch) {
  return static_cast<SlotQueues::Queue>(use_class * kRing + epoch % kRing);
}

class HitDensity final : public EvictionPolicy {
 public:
  explicit HitDensity(SlotId slots);

  void insert(SlotId slot, const CachedBlock& block) override;
  void touch(SlotId slot) override;
  void remove(SlotId slot) override { queues_.remove(slot); }
  std::optional<SlotId> victim(const MayGo& may_go) override;

 private:
  void use(SlotId slot);
  /// Slots last used in the oldest epoch of the ring join those that are older still.
  void age_the_oldest();
  /// The queues, least worth first.
  void rank();

  ReuseOdds odds_;
  SlotQueues queues_;  // by class and epoch
  std::vector<BlockHash> hashes_;
  std::vector<SlotQueues::Queue> ranking_;
  std::uint64_t ranked_at_ = UINT64_MAX;
};

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
  queues_.push_back(queue_for(use.use_class, use.epoch), slot);
}

void HitDensity::age_the_oldest() {
  for (std::uint8_t use_class = 0; use_class < ReuseOdds::kClasses; ++use_class) {
    const auto from = queue_for(use_class, odds_.epoch());
    const auto into = queue_for(use_class, odds_.epoch() + 1);
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

}  // namespace

std::unique_ptr<EvictionPolicy> make_hit_density(SlotId slots) {
  return std::make_unique<HitDensity>(slots);
}

}  // namespace towpath::kv
