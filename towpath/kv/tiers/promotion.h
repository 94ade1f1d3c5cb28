// PromotionQueue: the promotions that are not done, most urgent first, and never more than so many
// blocks. Thread: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <towpath/core/result.h>
#include <towpath/kv/tiers/tiered_cache.h>
#include <towpath/run/mutex.h>

namespace towpath::kv {

struct Promotion::State {
  std::vector<CachedBlock> blocks;
  std::size_t begun = 0;               // under the queue's lock
  std::atomic<bool> cancelled{false};  // a wish: no memory goes with it
  // Release in end(), acquire in settled(): who sees the count sees the results.
  std::atomic<std::size_t> settled{0};
  run::Mutex mutex;
  std::vector<std::optional<Promoted>> results TOWPATH_GUARDED_BY(mutex);  // by block
  std::size_t taken TOWPATH_GUARDED_BY(mutex) = 0;
};

/// That somebody still wants it.
struct Promotion::Wish {
  std::shared_ptr<State> state;
  ~Wish() { state->cancelled.store(true, std::memory_order_relaxed); }
};

class PromotionQueue {
 public:
  explicit PromotionQueue(std::size_t room) : room_(room) {}

  /// Errors: exhausted (with these, more blocks would wait than there is room for).
  Result<Promotion> add(std::vector<CachedBlock> blocks, std::uint8_t priority);

  /// A block that was begun; to be settled once, in any order.
  struct Next {
    CachedBlock block;
    std::shared_ptr<Promotion::State> state;
    std::size_t index = 0;  // in the promotion

    /// Nobody wants it any more.
    bool is_cancelled() const { return state->cancelled.load(std::memory_order_relaxed); }
  };
  /// Of the most urgent promotion that somebody still wants and whose next block may begin now.
  using MayBegin = std::function<bool(const CachedBlock&)>;
  std::optional<Next> next(const MayBegin& may_begin = [](const CachedBlock&) { return true; });
  /// Whether it would give one.
  bool has_next(const MayBegin& may_begin);
  void settle(const Next& next, Promoted result);

  /// Blocks that are not settled. Cost: one load, as with waiting().
  std::size_t size() const noexcept { return unsettled_.load(std::memory_order_relaxed); }
  /// Of these, that are not begun.
  std::size_t waiting() const noexcept { return waiting_.load(std::memory_order_relaxed); }
  std::uint64_t cancelled() const noexcept { return cancelled_.load(std::memory_order_relaxed); }

 private:
  using Place = std::pair<int, std::uint64_t>;  // minus priority, order of arrival
  void end(Promotion::State& state, std::size_t index, Promoted result);

  const std::size_t room_;
  std::atomic<std::size_t> unsettled_{0};  // hints outside the lock
  std::atomic<std::size_t> waiting_{0};
  std::atomic<std::uint64_t> cancelled_{0};  // a figure
  run::Mutex mutex_;
  std::map<Place, std::shared_ptr<Promotion::State>> promotions_ TOWPATH_GUARDED_BY(mutex_);
  std::uint64_t next_ TOWPATH_GUARDED_BY(mutex_) = 0;
};

}  // namespace towpath::kv
