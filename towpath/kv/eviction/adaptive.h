// Adaptive: does as whichever of the simple policies would have done best lately. Each candidate
// runs in a shadow cache of the same size, which counts the hits it would have had; all of them
// also keep an order of the real slots, so that a change of mind takes effect at the next eviction.
//
// Parameters: a hit's weight halves each time eight times as many blocks were used as the cache has
// slots, which is as far as ReuseOdds looks back; a change needs a lead of one in a hundred, so
// that equals do not take turns. Neither comes from a trace: both are relative to the cache. Cost:
// that of all candidates, twice, and some 2 KiB per slot. Blocks of one prompt
// must come in order (shadow_cache.h). Thread: none of its own.
#pragma once

#include <vector>

#include <towpath/kv/eviction/policy.h>
#include <towpath/kv/eviction/shadow_cache.h>

namespace towpath::kv {

class Adaptive final : public EvictionPolicy {
 public:
  explicit Adaptive(SlotId slots);

  void insert(SlotId slot, const CachedBlock& block) override;
  void touch(SlotId slot) override;
  void remove(SlotId slot) override;
  std::optional<SlotId> victim(const MayGo& may_go) override;

  /// Whom it follows now.
  PolicyKind leader() const { return candidates_[leader_].kind; }
  std::uint64_t changes() const noexcept { return changes_; }

 private:
  struct Candidate {
    PolicyKind kind;
    std::unique_ptr<EvictionPolicy> order;  // of the real slots
    ShadowCache shadow;
    double hits = 0;  // in the shadow, weighted
  };
  void see(const CachedBlock& block);

  std::vector<CachedBlock> blocks_;  // by slot
  std::vector<Candidate> candidates_;
  std::size_t leader_ = 0;
  std::uint64_t changes_ = 0;
  const double growth_;  // of a hit's weight, from one use to the next
  double weight_ = 1;
};

}  // namespace towpath::kv
