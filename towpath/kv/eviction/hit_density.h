// Hit density: the block goes whose room brings the fewest hits, by what was learned of how age and
// number of uses foretell the next (ReuseOdds). Of equals, the one used last goes: within a prompt
// that is the end of the chain. Parameters: those of ReuseOdds.
// Cost: constant per use; a look at some hundred queues per eviction. Thread: none of its own.
#pragma once

#include <vector>

#include <towpath/kv/eviction/policy.h>
#include <towpath/kv/eviction/reuse_odds.h>
#include <towpath/kv/eviction/slot_queues.h>

namespace towpath::kv {

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

}  // namespace towpath::kv
