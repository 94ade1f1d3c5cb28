#include <algorithm>
#include <utility>

#include <towpath/kv/connector/load_or_compute.h>

namespace towpath::kv {
namespace {

constexpr std::uint64_t kFewestTokens = 64;
constexpr std::uint64_t kTokensRemembered = 32768;  // before what is older counts half
// To see whether a tier is still slow: so many blocks, once in so many decisions to load less.
constexpr std::uint64_t kBlocksToSee = 4;
constexpr std::uint64_t kDecisionsBetween = 64;
constexpr std::uint64_t kBlindDecisions = 8;

}  // namespace

void LoadOrCompute::note_step(std::uint64_t tokens, Duration took) {
  has_steps_ = true;
  if (tokens < kFewestTokens || took <= Duration{0}) return;
  tokens_ += tokens;
  steps_ += took;
  for (; tokens_ > kTokensRemembered; tokens_ /= 2) steps_ /= 2;
}

void LoadOrCompute::note_cost(std::uint32_t worker, const TierCost& cost) {
  Duration& known = costs_[{cost.tier, worker}];
  if (cost.per_block < known) refused_ = kDecisionsBetween;  // it may be worth it now
  known = cost.per_block;
}

Duration LoadOrCompute::computing_per_token() const noexcept {
  return tokens_ == 0 ? Duration{0} : steps_ / static_cast<std::int64_t>(tokens_);
}

/// Of the slowest worker.
std::array<Duration, kMaxTiers> LoadOrCompute::costs_by_tier() const {
  std::array<Duration, kMaxTiers> slowest{};
  for (const auto& [whose, cost] : costs_) {
    Duration& most = slowest[whose.first];
    most = std::max(most, cost);
  }
  return slowest;
}

LoadOrCompute::Answer LoadOrCompute::ask(const Question& question) const {
  const std::uint64_t blocks = question.tiers.size();
  if (tokens_ == 0) {
    const bool looks = has_steps_ && blind_ >= kBlindDecisions;
    const std::uint64_t left = looks ? 1 + (kFewestTokens - 1) / question.tokens_per_block : 0;
    return {.blocks = blocks - std::min(blocks, left), .is_to_see = looks};
  }
  const Duration computed = steps_ * static_cast<std::int64_t>(question.tokens_per_block) /
                            static_cast<std::int64_t>(tokens_);
  const std::array<Duration, kMaxTiers> costs = costs_by_tier();
  TierCounts waiting = question.waiting;
  Answer best;
  Duration lost{0}, least_lost{0};  // by loading the blocks so far, and not computing them
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const TierIndex tier = question.tiers[i];
    // What others wait for is brought before: each tier's queue counts once.
    const std::uint64_t brought = tier == 0 ? 0 : 1 + std::exchange(waiting[tier], 0);
    lost += costs[0] + costs[tier] * static_cast<std::int64_t>(brought) - computed;
    if (lost > least_lost) continue;
    least_lost = lost;
    best.blocks = i + 1;
  }
  if (best.blocks < blocks && refused_ >= kDecisionsBetween)
    return {.blocks = std::min(blocks, best.blocks + kBlocksToSee), .is_to_see = true};
  return best;
}

void LoadOrCompute::note_decision(const Answer& answer, std::uint64_t asked_blocks) {
  if (tokens_ == 0) blind_ = answer.is_to_see ? 0 : blind_ + 1;
  if (answer.is_to_see)
    refused_ = 0;
  else if (answer.blocks < asked_blocks)
    ++refused_;
}

}  // namespace towpath::kv
