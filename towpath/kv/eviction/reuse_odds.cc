#include <algorithm>

#include <towpath/kv/eviction/reuse_odds.h>

namespace towpath::kv {
namespace {

constexpr std::uint64_t kEpochsPerCache = 4;
constexpr double kFade = 0.98922801319397546;  // a half after 64 epochs

}  // namespace

ReuseOdds::ReuseOdds(SlotId slots)
    : epoch_length_(std::max<std::uint64_t>(1, slots / kEpochsPerCache)) {
  for (std::uint8_t use_class = 0; use_class < kClasses; ++use_class) judge(use_class);
}

ReuseOdds::Use ReuseOdds::count(BlockHash hash) {
  if (used_++ == epoch_length_) end_epoch();
  Use use;
  use.epoch = epoch_;
  const auto [known, is_new] = known_.try_emplace(hash, use);
  if (!is_new) {
    const Use last = known->second;
    --living_[last.use_class][last.epoch % kAges];
    ++reused_[last.use_class][age_of(last.epoch)];
    use.use_class = std::min<std::uint64_t>(last.use_class + 1, kClasses - 1);
    known->second = use;
  }
  ++living_[use.use_class][epoch_ % kAges];
  seen_[epoch_ % kAges].push_back(hash);
  return use;
}

void ReuseOdds::end_epoch() {
  used_ = 1;
  for (std::uint8_t use_class = 0; use_class < kClasses; ++use_class) {
    for (std::uint64_t age = 0; age < kAges && age <= epoch_; ++age) {
      reached_[use_class][age] = reached_[use_class][age] * kFade +
                                 static_cast<double>(living_[use_class][(epoch_ - age) % kAges]);
      reused_[use_class][age] *= kFade;
    }
    judge(use_class);
  }
  ++epoch_;
  forget_the_oldest();
}

// What was last used kAges epochs ago makes room in the ring.
void ReuseOdds::forget_the_oldest() {
  auto& seen = seen_[epoch_ % kAges];
  for (const BlockHash hash : seen) {
    const auto known = known_.find(hash);
    if (known != known_.end() && known->second.epoch + kAges == epoch_) known_.erase(known);
  }
  seen.clear();
  for (auto& living : living_) living[epoch_ % kAges] = 0;
}

void ReuseOdds::judge(std::uint8_t use_class) {
  std::array<double, kAges> hazard{};
  for (std::uint64_t age = 0; age < kAges; ++age) {
    const double guess = 0.1 / static_cast<double>(age + 1);
    hazard[age] = (reused_[use_class][age] + guess) /
                  (reached_[use_class][age] + reused_[use_class][age] + 1);
  }
  for (std::uint64_t from = 0; from < kAges; ++from) {
    double alive = 1, uses = 0, room = 0, best = 0;
    for (std::uint64_t age = from; age < kAges; ++age) {
      uses += alive * hazard[age];
      room += alive;
      alive *= 1 - hazard[age];
      best = std::max(best, uses / room);
    }
    worth_[use_class][from] = best;
  }
}

}  // namespace towpath::kv
