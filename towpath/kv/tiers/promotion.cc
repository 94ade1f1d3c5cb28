#include <algorithm>
#include <utility>

#include <towpath/core/text.h>
#include <towpath/kv/tiers/promotion.h>

namespace towpath::kv {

using run::MutexLock;

std::vector<Promoted> Promotion::take() {
  const MutexLock lock(state_->mutex);
  return std::exchange(state_->results, {});
}

Result<Promotion> PromotionQueue::add(std::vector<CachedBlock> blocks, std::uint8_t priority) {
  Promotion promotion(std::make_shared<Promotion::State>());
  promotion.state_->blocks = std::move(blocks);
  const std::size_t count = promotion.state_->blocks.size();
  if (count == 0) return promotion;
  const MutexLock lock(mutex_);
  const std::size_t waiting = waiting_.load(std::memory_order_relaxed);
  if (count > room_ - std::min(room_, waiting))
    return error(
        Code::exhausted,
        cat(count, " blocks to promote; ", waiting, " of at most ", room_, " wait already"),
        "let some arrive first, ask for fewer, or make more room");
  waiting_.store(waiting + count, std::memory_order_relaxed);
  promotions_.emplace(Place{-int{priority}, next_++}, promotion);
  return promotion;
}

std::optional<PromotionQueue::Next> PromotionQueue::next() {
  const MutexLock lock(mutex_);
  while (!promotions_.empty()) {
    const Promotion promotion = promotions_.begin()->second;
    Promotion::State& state = *promotion.state_;
    const bool abandoned = promotion.state_.use_count() == 2;  // the queue's, and this one
    if (!abandoned && !state.cancelled.load(std::memory_order_relaxed))
      return Next{promotion, state.blocks[promotion.settled()]};
    while (!promotion.ended()) {
      cancelled_.fetch_add(1, std::memory_order_relaxed);
      end(promotion, {{}, error(Code::cancelled, "nobody wants the block any more")});
    }
    promotions_.erase(promotions_.begin());
  }
  return std::nullopt;
}

void PromotionQueue::settle(const Next& next, Promoted result) {
  const MutexLock lock(mutex_);
  end(next.promotion, std::move(result));
  if (!next.promotion.ended()) return;
  std::erase_if(promotions_,
                [&](const auto& entry) { return entry.second.state_ == next.promotion.state_; });
}

void PromotionQueue::end(const Promotion& promotion, Promoted result) {
  Promotion::State& state = *promotion.state_;
  const MutexLock lock(state.mutex);
  state.results.push_back(std::move(result));
  state.settled.fetch_add(1, std::memory_order_release);
  waiting_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace towpath::kv
