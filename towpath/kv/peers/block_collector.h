// BlockCollector: takes the blocks that peers have and this cache has not, so that they outlive
// those peers: what makes a keeper the server of a cache.
//
//   note(news) --> [ wanted ] --progress()--> promoted: leased, proven, in the pool
//                                                       and demoted from there
//
// A block is taken once for each time that peers report it anew: one that was evicted here since is
// not fetched again by itself, or a cache that is too small would copy without end. What cannot be
// had is a miss, as always. A batch is of blocks that the same peers are asked for, and each has
// few of them: one that is stopped with a block in all of its own keeps no other waiting. So have
// tenants turns in it, a block each, that none waits for all that another has.
// Thread: loop, the peers'.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
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
    /// Names whom that tier would ask for the block; empty: all are as one.
    std::function<std::string(BlockHash)> owners_of{};
    std::size_t batch_blocks = 64;  ///< promoted together
    /// That wait, of each peer's tenant an equal share; beyond, the newest are not taken. Those
    /// that come later find their share taken by none: all together may be some times as many.
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
    std::string owners;
    std::vector<CachedBlock> blocks;
    Promotion coming;
    std::size_t taken = 0;
  };
  struct Wanted {
    std::deque<BlockHash> hashes;
    Instant rests_until{0};  // it had no slot
  };
  /// What the same peers are asked for.
  struct Source {
    std::map<TenantId, Wanted> wanted;  // of those that wait for something
    TenantId last{0};                   // whose turn it was
    std::size_t batches = 0;            // under way
  };
  void want(BlockHash hash, TenantId tenant);
  Wanted& want_again(const CachedBlock& block);
  std::string owners_of(BlockHash hash) const;
  std::size_t queues() const;
  std::vector<CachedBlock> next_wanted(const std::string& owners, Source& source);
  bool is_missing(BlockHash hash) const;
  bool take(Batch& batch);
  bool start_any();
  bool start_batch(const std::string& owners, Source& source);

  static constexpr std::size_t kBatches = 2;  // one is pulled while the next is asked for
  const Options options_;
  TieredCache& cache_;
  std::map<std::string, Source> sources_;  // by their owners
  std::string last_;                       // whose turn it was
  std::size_t waiting_ = 0;                // of all
  std::deque<Batch> batches_;
  Instant rests_until_{0};  // too much waits in the cache
  CollectorFigures figures_;
};

}  // namespace towpath::kv
