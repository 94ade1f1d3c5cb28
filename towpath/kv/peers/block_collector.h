// BlockCollector: takes the blocks that peers have and this cache has not, so that they outlive
// those peers: what makes a keeper the server of a cache.
//
//   note(news) --> [ wanted ] --progress()--> promoted: leased, proven, in the pool, demoted from
//   there
//
// A block is taken once for each time that peers report it anew: one that was evicted here since is
// not fetched again by itself, or a cache that is too small would copy without end. What cannot be
// had is a miss, as always. Tenants have turns, a block each, so that none waits for all that
// another has. Thread: loop, the peers'.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/kv/blocks/block_directory.h>
#include <towpath/kv/figures.h>
#include <towpath/kv/tiers/tiered_cache.h>

namespace towpath::kv {

class BlockCollector {
 public:
  struct Options {
    const Clock* clock = nullptr;
    const BlockDirectory* block_directory = nullptr;  ///< the cache's
    TierIndex peers = 0;                              ///< the tier of what peers have
    std::size_t batch_blocks = 64;                    ///< promoted together
    /// That wait, of each tenant an equal share; beyond, the newest are not taken. Tenants that
    /// come later find their share taken by none: all together may be some times as many.
    std::size_t most_wanted = std::size_t{1} << 20U;
  };
  /// All outlive it.
  BlockCollector(const Options& options, TieredCache& cache) : options_(options), cache_(cache) {}

  /// Of the cache's directory.
  void note(const BlockDirectory::Events& news);
  /// True: there is more to do at once.
  bool progress();
  const CollectorFigures& figures() const { return figures_; }

 private:
  struct Batch {
    std::vector<CachedBlock> blocks;
    Promotion coming;
    Instant moved_at;  // when it began, or a block of it was last taken
    std::size_t taken = 0;
  };
  void want(BlockHash hash, TenantId tenant);
  std::vector<CachedBlock> next_wanted();
  void want_again(const CachedBlock& block);
  bool is_missing(BlockHash hash) const;
  bool take(Batch& batch);
  bool may_start_batch() const;
  bool start_batch();

  static constexpr std::size_t kBatches = 2;      // one is pulled while the next is asked for
  static constexpr std::size_t kMostBatches = 8;  // where all of them wait for a peer
  const Options options_;
  TieredCache& cache_;
  struct Wanted {
    std::deque<BlockHash> hashes;
    Instant rests_until{0};  // it had no slot
  };
  std::map<TenantId, Wanted> wanted_;  // of those that wait for something
  std::size_t waiting_ = 0;            // of all
  TenantId last_{0};                   // whose turn it was
  std::deque<Batch> batches_;
  Instant rests_until_{0};  // too much waits in the cache
  CollectorFigures figures_;
};

}  // namespace towpath::kv
