// What a TieredCache has under way: tasks of its tiers, and the blocks that they belong to. Its own
// affair. Thread: whoever has the cache's work_; the histograms any.
#pragma once

#include <optional>
#include <vector>

#include <towpath/kv/tiers/pace.h>
#include <towpath/kv/tiers/tiered_cache_core.h>

namespace towpath::kv {

/// A tier, and what was done with it.
struct TieredCache::Core::TierState {
  std::unique_ptr<BlockTier> tier;
  std::size_t number = 0;  // in figures_.below
  std::size_t under_way = 0;
  std::size_t puts_under_way = 0;
  Instant rests_until{0};
  bool is_doubtful = false;  // the last put failed: one at a time, until one has not
  telemetry::Histogram put_ns, get_ns;
  Pace reading;

  /// Puts leave a place to others, where there is more than one: nobody waits for a put.
  bool has_place_for(TierTask::Kind kind) const {
    const std::size_t depth = tier->depth();
    const std::size_t put_depth = tier->put_depth();
    if (put_depth > 0)
      return kind == TierTask::Kind::put ? puts_under_way < put_depth
                                         : under_way - puts_under_way < depth;
    const std::size_t most_puts = depth > 1 ? depth - 1 : 1;
    return under_way < depth && (kind != TierTask::Kind::put || puts_under_way < most_puts);
  }
};

/// A task of a tier. It stays where it is.
struct TieredCache::Core::TierRequest {
  TierRequest(TierState& of, TierTask what) : tier(of), task(std::move(what)) {}

  TierState& tier;
  TierTask task;
  Instant since{0};
  bool is_over = false;  // and its place free
};

/// A block that is promoted.
struct TieredCache::Core::PromotionInFlight {
  PromotionQueue::Next wanted;
  std::optional<PartialBlock> slot{};
  ByteSpan aside{};      // where the slot is not in one piece, or a device's
  ByteSpan back{};       // what is read back from there
  std::size_t next = 0;  // of below_, to be asked
  std::optional<TierRequest> request{};
  std::optional<SlotCopy> copy{};  // from aside, once that has come
  Status why{};                    // the last one failed
  bool is_unwanted = false;        // dropped, since `request` began
};

/// A block that is demoted, to one tier or more.
struct TieredCache::Core::DemotionInFlight {
  WeakBlock block{};
  Demotion how{};
  std::optional<BlockHash> parent{};
  SlotCopy copy{};                   // aside
  bool was_held = false;             // while it was copied
  bool is_aside = false;             // the copy has ended, and was examined
  std::vector<TierState*> takers{};  // that have no place for it yet
  std::list<TierRequest> requests{};
  bool is_wrong = false;     // and gone from the pool
  bool is_unwanted = false;  // dropped meanwhile
};

}  // namespace towpath::kv
