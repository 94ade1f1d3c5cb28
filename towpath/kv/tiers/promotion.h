// Promotion: blocks that are being brought up to the host's pool, and what became of each.
// PromotionQueue: those that are not done, most urgent first, and never more than so many blocks.
//
//   auto promotion = cache.promote(blocks);
//   while (!promotion->ended()) cache.progress();
//   for (Promoted& one : promotion->take()) ...   // a block, held; or why there is none
//
// Thread: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <towpath/core/result.h>
#include <towpath/kv/blocks/block_handles.h>
#include <towpath/run/mutex.h>

namespace towpath::kv {

/// A block is there and held, or `status` says why not: not_found (no tier has it), corrupt (it was
/// there, and is wrong: quarantined), exhausted (all slots are held), cancelled, or what reading
/// failed with.
struct Promoted {
  BlockRef block;
  Status status;
};

/// Copies share. When all are gone, what was not brought up yet is not.
class Promotion {
 public:
  /// Blocks that were decided about, from the first on.
  std::size_t settled() const noexcept { return state_->settled.load(std::memory_order_acquire); }
  bool ended() const noexcept { return settled() == state_->blocks.size(); }
  /// From now on no block is begun; those that are left end as cancelled.
  void cancel() noexcept { state_->cancelled.store(true, std::memory_order_relaxed); }
  /// All that are settled and were not taken before, in order.
  std::vector<Promoted> take();

 private:
  friend class PromotionQueue;
  struct State {
    std::vector<CachedBlock> blocks;
    std::atomic<bool> cancelled{false};  // a wish: no memory goes with it
    // Release in settle(), acquire in settled(): who sees the count sees the results.
    std::atomic<std::size_t> settled{0};
    run::Mutex mutex;
    std::vector<Promoted> results TOWPATH_GUARDED_BY(mutex);
  };
  explicit Promotion(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

class PromotionQueue {
 public:
  explicit PromotionQueue(std::size_t room) : room_(room) {}

  /// Errors: exhausted (with these, more blocks would wait than there is room for).
  Result<Promotion> add(std::vector<CachedBlock> blocks, std::uint8_t priority);

  /// The next block of the most urgent promotion that somebody still wants. It stays in the queue
  /// until it is settled. For one thread at a time.
  struct Next {
    Promotion promotion;
    CachedBlock block;
  };
  std::optional<Next> next();
  void settle(const Next& next, Promoted result);

  /// Blocks that wait. Cost: one load.
  std::size_t size() const noexcept { return waiting_.load(std::memory_order_relaxed); }
  std::uint64_t cancelled() const noexcept { return cancelled_.load(std::memory_order_relaxed); }

 private:
  using Place = std::pair<int, std::uint64_t>;  // minus priority, order of arrival
  void end(const Promotion& promotion, Promoted result);

  const std::size_t room_;
  std::atomic<std::size_t> waiting_{0};      // a hint outside the lock
  std::atomic<std::uint64_t> cancelled_{0};  // a figure
  run::Mutex mutex_;
  std::map<Place, Promotion> promotions_ TOWPATH_GUARDED_BY(mutex_);
  std::uint64_t next_ TOWPATH_GUARDED_BY(mutex_) = 0;
};

}  // namespace towpath::kv
