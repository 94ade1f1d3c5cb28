#include <algorithm>

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
  costs_[{cost.tier, worker}] = cost.per_block;
}

Duration LoadOrCompute::computing_per_token() const noexcept {
  return tokens_ == 0 ? Duration{0} : steps_ / static_cast<std::int64_t>(tokens_);
}

Duration LoadOrCompute::cost_of(TierIndex tier) const {
  Duration most{0};
  for (auto known = costs_.lower_bound({tier, 0}); known != costs_.end(); ++known) {
    if (known->first.first != tier) break;
    most = std::max(most, known->second);
  }
  return most;
}

LoadOrCompute::Answer LoadOrCompute::ask(const Question& question) const {
  const auto blocks = question.tiers.size();
  if (tokens_ == 0) {
    const bool looks = has_steps_ && blind_ >= kBlindDecisions;
    const std::uint64_t left = looks ? 1 + (kFewestTokens - 1) / question.tokens_per_block : 0;
    return {.blocks = blocks - std::min<std::uint64_t>(blocks, left), .is_to_see = looks};
  }
  const Duration computed = steps_ * static_cast<std::int64_t>(question.tokens_per_block) /
                            static_cast<std::int64_t>(tokens_);
  const auto computing = [&](std::uint64_t left) {
    return computed * static_cast<std::int64_t>(left);
  };
  const Duration copied = cost_of(0);
  Answer best{.computing = computing(blocks), .all_computed = computing(blocks)};
  Answer next = best;
  TierCounts waiting = question.waiting;
  for (const TierIndex tier : question.tiers) {
    const Duration brought = tier == 0 ? Duration{0} : cost_of(tier);
    // Who came before is served before: each tier's queue counts once.
    next.loading +=
        copied + brought * static_cast<std::int64_t>(1 + std::exchange(waiting[tier], 0));
    next.computing = computing(blocks - ++next.blocks);
    if (next.loading + next.computing <= best.loading + best.computing) best = next;
  }
  if (best.blocks < blocks && refused_ >= kDecisionsBetween) {
    best.is_to_see = true;
    best.blocks = std::min<std::uint64_t>(blocks, best.blocks + kBlocksToSee);
  }
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
