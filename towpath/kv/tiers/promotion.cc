#include <algorithm>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/kv/tiers/promotion.h>

namespace towpath::kv {

using run::MutexLock;

Promotion::Promotion(std::shared_ptr<State> state)
    : wish_(std::make_shared<const Wish>(std::move(state))) {}

Promotion::State& Promotion::state() const noexcept { return *wish_->state; }

std::size_t Promotion::settled() const noexcept {
  return state().settled.load(std::memory_order_acquire);
}

bool Promotion::ended() const noexcept { return settled() == state().blocks.size(); }

void Promotion::cancel() noexcept { state().cancelled.store(true, std::memory_order_relaxed); }

std::vector<Promoted> Promotion::take() {
  State& all = state();
  const MutexLock lock(all.mutex);
  std::vector<Promoted> taken;
  for (const std::size_t end = settled(); all.taken < end; ++all.taken)
    taken.push_back(*std::exchange(all.results[all.taken], std::nullopt));
  return taken;
}

Result<Promotion> PromotionQueue::add(std::vector<CachedBlock> blocks, std::uint8_t priority) {
  const auto state = std::make_shared<Promotion::State>();
  state->blocks = std::move(blocks);
  Promotion promotion(state);
  const std::size_t count = state->blocks.size();
  if (count == 0) return promotion;
  {
    const MutexLock results(state->mutex);
    state->results.resize(count);
  }
  const MutexLock lock(mutex_);
  const std::size_t unsettled = unsettled_.load(std::memory_order_relaxed);
  if (count > room_ - std::min(room_, unsettled))
    return error(
        Code::exhausted,
        cat(count, " blocks to promote; ", unsettled, " of at most ", room_, " wait already"),
        "let some arrive first, ask for fewer, or make more room");
  unsettled_.fetch_add(count, std::memory_order_relaxed);
  waiting_.fetch_add(count, std::memory_order_relaxed);
  promotions_.emplace(Place{-int{priority}, next_++}, state);
  return promotion;
}

std::optional<PromotionQueue::Next> PromotionQueue::next(const MayBegin& may_begin) {
  const MutexLock lock(mutex_);
  for (auto at = promotions_.begin(); at != promotions_.end();) {
    const std::shared_ptr<Promotion::State> state = at->second;
    Next next{state->blocks[state->begun], state, state->begun};
    if (!next.is_cancelled() && !may_begin(next.block)) {
      ++at;
      continue;
    }
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    if (++state->begun == state->blocks.size()) at = promotions_.erase(at);
    if (!next.is_cancelled()) return next;
    end(*state, next.index, {{}, error(Code::cancelled, "nobody wants the block any more")});
  }
  return std::nullopt;
}

bool PromotionQueue::has_next(const MayBegin& may_begin) {
  if (waiting() == 0) return false;
  const MutexLock lock(mutex_);
  return std::ranges::any_of(promotions_, [&](const auto& entry) {
    const Promotion::State& state = *entry.second;
    return !state.cancelled.load(std::memory_order_relaxed) && may_begin(state.blocks[state.begun]);
  });
}

void PromotionQueue::settle(const Next& next, Promoted result) {
  end(*next.state, next.index, std::move(result));
}

void PromotionQueue::end(Promotion::State& state, std::size_t index, Promoted result) {
  if (result.status.code() == Code::cancelled) cancelled_.fetch_add(1, std::memory_order_relaxed);
  unsettled_.fetch_sub(1, std::memory_order_relaxed);
  const MutexLock lock(state.mutex);
  state.results[index] = std::move(result);
  std::size_t settled = state.settled.load(std::memory_order_relaxed);
  while (settled < state.results.size() && state.results[settled]) ++settled;
  state.settled.store(settled, std::memory_order_release);
}

}  // namespace towpath::kv
