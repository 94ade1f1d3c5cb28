#include <algorithm>
#include <array>
#include <cmath>

#include <towpath/kv/eviction/adaptive.h>

namespace towpath::kv {
namespace {

constexpr std::array kCandidates{PolicyKind::hit_density, PolicyKind::lineage,
                                 PolicyKind::lru,         PolicyKind::s3_fifo,
                                 PolicyKind::lfu,         PolicyKind::multi_lru};
constexpr double kHalfLife = 8;  // in uses per slot
constexpr double kLead = 1.01;
constexpr double kLargestWeight = 1e100;

}  // namespace

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
  ++changes_;
}

}  // namespace towpath::kv
