// Adaptive: does as whichever of the simple policies would have done best lately. Each candidate
// runs in a shadow cache of the same size, which counts the hits it would have had; all of them
// also keep an order of the real slots, so that a change of mind takes effect at the next eviction.
//
// Parameters: a hit's weight halves each time eight times as many blocks were used as the cache has
// slots; a change needs a lead of one in a hundred, so that equals do not take turns. Neither comes
// from a trace: both are relative to the cache. Cost: that of all candidates, twice, and some 2,900
// bytes per slot. Blocks of one prompt must come in order (shadow_cache.h). Thread: none of its
// own.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <towpath/kv/eviction/policies.h>
#include <towpath/kv/eviction/shadow_cache.h>

namespace towpath::kv {
namespace {

constexpr std::array kCandidates{PolicyKind::hit_density, PolicyKind::lineage,
                                 PolicyKind::lru,         PolicyKind::s3_fifo,
                                 PolicyKind::lfu,         PolicyKind::multi_lru};
constexpr double kHalfLife = 8;  // in uses per slot
constexpr double kLead = 1.01;
constexpr double kLargestWeight = 1e100;

class Adaptive final : public EvictionPolicy {
 public:
  explicit Adaptive(SlotId slots);

  void insert(SlotId slot, const CachedBlock& block) override;
  void touch(SlotId slot) override;
  void remove(SlotId slot) override;
  std::optional<SlotId> victim(const MayGo& may_go) override;

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
  const double growth_;  // of a hit's weight, from one use to the next
  double weight_ = 1;
};

Adaptive::Adaptive(SlotId slots)
    : blocks_(slots), growth_(std::exp2(1.0 / (kHalfLife * std::max<double>(1, slots)))) {
  candidates_.reserve(kCandidates.size());
  for (const PolicyKind kind : kCandidates)
    candidates_.push_back(
        {kind, make_policy(kind, slots), ShadowCache(slots, make_policy(kind, slots))});
}

void Adaptive::insert(SlotId slot, const CachedBlock& block) {
  blocks_[slot] = block;
  for (Candidate& candidate : candidates_) candidate.order->insert(slot, block);
  see(block);
}

void Adaptive::touch(SlotId slot) {
  for (Candidate& candidate : candidates_) candidate.order->touch(slot);
  see(blocks_[slot]);
}

void Adaptive::remove(SlotId slot) {
  for (Candidate& candidate : candidates_) candidate.order->remove(slot);
}

std::optional<SlotId> Adaptive::victim(const MayGo& may_go) {
  return candidates_[leader_].order->victim(may_go);
}

// Instead of all hits fading, the new ones weigh more; from time to time all is scaled down.
void Adaptive::see(const CachedBlock& block) {
  for (Candidate& candidate : candidates_)
    if (candidate.shadow.use(block)) candidate.hits += weight_;
  weight_ *= growth_;
  if (weight_ > kLargestWeight) {
    for (Candidate& candidate : candidates_) candidate.hits /= weight_;
    weight_ = 1;
  }
  const auto best = std::ranges::max_element(candidates_, {}, &Candidate::hits);
  if (best->hits <= candidates_[leader_].hits * kLead) return;
  leader_ = static_cast<std::size_t>(best - candidates_.begin());
}

}  // namespace

std::unique_ptr<EvictionPolicy> make_adaptive(SlotId slots) {
  return std::make_unique<Adaptive>(slots);
}

}  // namespace towpath::kv
