// TieredCache: KV blocks in a pool, and in the tiers below it: copied down while nobody waits for
// it, and brought back up when somebody does. The pool is host memory, or a device's; then the
// host's is the first tier below (HostTier).
//
//                      register_block()
//   bytes, made here -----------------> [    pool     ]  found, held, evicted (BlockPool)
//                                        |          ^
//      demotion: admitted, queued weakly,|          | promotion: proven against the digest,
//      copied aside, proven, put, synced v          | then registered: visible only now
//                                       [ tiers below ]  (BlockTier: disk, ...)
//
// Demotion copies blocks long before their slots are wanted, so that eviction waits for nothing. In
// host memory it holds a block while it copies it aside and proves it, in one pass, one at a time,
// and allocate() waits for that rather than fail. Out of a device it copies in batches on a stream
// and holds nothing: what was evicted meanwhile is thrown away. Between two blocks it lets
// promotions go first. What goes to a device is copied back and proven before it is found there.
// What does not match its digest, going down or up, is dropped where it was found, counted by
// reason, and a miss. Of each tier as many tasks are under way as it takes at once; what is more
// urgent is begun first. It has no threads: all copying is done by the caller of progress().
// Thread: any; one at a time is in progress(). It outlives the handles and promotions that it gave
// out.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/kv/blocks/block_pool.h>
#include <towpath/kv/tiers/block_tier.h>
#include <towpath/layout/physical_layout.h>
#include <towpath/memory/device_region.h>
#include <towpath/telemetry/metrics.h>

namespace towpath::kv {

/// Which blocks are worth the wear of a tier below.
struct AdmissionOptions {
  std::uint64_t min_accesses = 1;  ///< 1: all blocks; at most FrequencySketch::kMost
  std::uint8_t min_priority = 0;   ///< what is less urgent is never demoted
};

/// What the user says of a block that may go down.
struct Demotion {
  std::uint8_t priority = kUsualPriority;  ///< the higher, the sooner
  std::uint64_t owner = 0;                 ///< a request, say: cancelled together; 0: nobody's
};

/// A block is there and held, or `status` says why not: not_found (no tier has it), corrupt (it was
/// there, and is wrong: quarantined), exhausted (all slots are held), cancelled, or what reading
/// failed with.
struct Promoted {
  BlockRef block;
  Status status;
};

/// Blocks that are being promoted to the cache's pool, and what became of each.
///
///   auto promotion = cache.promote(blocks);
///   while (!promotion->ended()) cache.progress();
///   for (Promoted& one : promotion->take()) ...   // a block, held; or why there is none
///
/// Copies share. When all are gone, it is cancelled. Thread: any.
class Promotion {
 public:
  /// Blocks that were decided about: the first of it, without a gap.
  std::size_t settled() const noexcept;
  bool ended() const noexcept;
  /// From now on no block is begun; what is under way ends soon; those that are left end as
  /// cancelled.
  void cancel() noexcept;
  /// All that are settled and were not taken before, in order.
  std::vector<Promoted> take();

 private:
  friend class PromotionQueue;
  struct State;
  struct Wish;
  explicit Promotion(std::shared_ptr<State> state);
  State& state() const noexcept;

  std::shared_ptr<const Wish> wish_;
};

struct TieredCacheOptions {
  PolicyKind policy = PolicyKind::lru;  ///< of the pool
  Duplicates duplicates = Duplicates::refuse;
  /// Percent of the pool's slots that blocks of one tenant may have, and those of no tenant
  /// together; one slot at least. 0: no bound. What is promoted counts for the tenant that the
  /// block directory has for it; tiers below have no bound.
  std::uint32_t quota_percent = 0;
  AdmissionOptions admission;
  std::size_t most_waiting_demotions = 4096;   ///< blocks; what is less urgent is not kept beyond
  std::size_t most_waiting_promotions = 4096;  ///< blocks; promote() refuses beyond, look() forgets
  std::size_t batch_blocks = 64;               ///< at most so many per call of progress(), each way
  /// Small blocks are demoted in larger batches, up to this: a batch ends with a sync, which costs
  /// a disk the same for few bytes and for many. Two batches may be aside at a time, on their way:
  /// of so many bytes each, or of `batch_blocks` where this is 0.
  std::uint64_t batch_bytes = std::uint64_t{16} << 20U;
  std::size_t batch_at_least = 8;  ///< fewer are demoted only after `linger`
  Duration linger = std::chrono::milliseconds(10);
  /// Of a tier that could not be written to. Then one block at a time asks whether it can, while
  /// the others go on.
  Duration rest = std::chrono::seconds(1);
  /// Blocks between the host and the device that has the pool, each way. Three of them are pinned
  /// in host memory for each.
  std::size_t copies_at_once = 32;
};

struct TierFigures {
  std::string name;
  std::uint64_t demoted = 0, demoted_bytes = 0;    ///< there for good
  std::uint64_t promoted = 0, promoted_bytes = 0;  ///< proven
  std::map<std::string, std::uint64_t> failed;     ///< by what was done, and its code
  telemetry::HistogramSummary put_ns, get_ns;
  std::optional<TierCapacity> room;  ///< after the last progress(); where the tier knows
};

struct TieredCacheFigures {
  BlockPool::Figures pool;
  std::vector<TierFigures> below;
  std::size_t waiting_demotions = 0, waiting_promotions = 0;  ///< these also under way
  std::uint64_t not_admitted = 0;
  std::uint64_t given_up = 0;                        ///< the queue was full, or a tier rested
  std::uint64_t gone = 0;                            ///< evicted or dropped before their turn
  std::uint64_t cancelled = 0;                       ///< blocks, of demotions and promotions
  std::uint64_t not_found = 0;                       ///< promotions of what no tier had
  std::map<std::string, std::uint64_t> quarantined;  ///< by where, going which way
  /// Between a device's pool and the host, by way and code.
  std::map<std::string, std::uint64_t> failed_copies;
  telemetry::HistogramSummary copy_out_ns, copy_in_ns;  ///< of a device's; in: and back
  Status last_failure;                                  ///< of a tier, or of such a copy
};

class TieredCache {
 public:
  /// `clock` and `block_directory` outlive it, and the tiers report to that directory. Tiers in
  /// order, the fastest first. Errors: invalid_argument (options, tiers out of order), unsupported
  /// (a layout that this process cannot read block by block); those of SlotCopier::make().
  struct Parts {
    const Clock& clock;
    BlockDirectory& block_directory;
    layout::PhysicalLayout layout;  ///< of the pool
    std::vector<std::unique_ptr<BlockTier>> below;
    telemetry::CacheMeterParts meter{};  ///< reported by match() and find() where blocks were
    memory::SharedDevice device{};       ///< that the layout was allocated on; null: the host's
  };
  static Result<std::unique_ptr<TieredCache>> make(Parts parts, const TieredCacheOptions& options);
  /// Cancels what is under way, and waits until it has ended.
  ~TieredCache();

  const layout::PhysicalLayout& layout() const noexcept;
  BlockPool& pool() noexcept;

  /// As BlockPool's. Waits at most for the copy of one block within host memory, for none from a
  /// device.
  Result<std::vector<PartialBlock>> allocate(SlotId count, TenantId tenant = 0);
  /// As BlockPool's; and the block is demoted in its time. Of a device's memory: who wrote the
  /// bytes has ended.
  Result<BlockRef> register_block(CompleteBlock&& block, const Demotion& how = {});
  /// The prefix that is in the pool, held, and how many blocks behind it are in some tier.
  /// What was used often enough now is demoted in its time. `how`: nothing, with the priority that
  /// each was registered with.
  struct Prefix {
    std::vector<BlockRef> here;
    std::size_t below = 0;
  };
  Prefix match(std::span<const BlockHash> hashes, const std::optional<Demotion>& how = {});

  /// The block in the pool; the order of demotions does not change.
  BlockRef find(BlockHash hash);

  /// Asks the tiers that know only when they look whether they have these; match() reports from
  /// then on. A best effort: of too many the last are not looked for.
  void look(std::span<const BlockHash> hashes);
  /// Answers that are awaited. Cost: one load.
  std::size_t looking() const noexcept;

  /// Brings blocks up. Errors: exhausted (too many wait: ask again later, or make them anew).
  Result<Promotion> promote(std::span<const CachedBlock> blocks,
                            std::uint8_t priority = kUsualPriority);
  /// Demoted before all others, whatever its admission.
  void demote(const BlockRef& block);
  /// Demotions of this owner that were not begun are not. How many.
  std::size_t cancel_demotions(std::uint64_t owner);
  /// The block is no more, in any tier. Waits for a progress() under way.
  void drop(BlockHash hash);

  /// Does what waits: promotions, then demotions, at most a batch each way. False: nothing was to
  /// be done now. Cost: reads, writes and a sync of the tiers below.
  bool progress();
  /// Sleeps until a tier below has something to report, or so long; not at all where none is
  /// awaited. For blocks between a device and the host: until they are there. Nobody else makes
  /// progress meanwhile.
  void wait_for_work(Duration most);
  /// For a thread that does nothing but progress(): sleeps until there may be something to do, or
  /// so long. The first call returns at once.
  void idle(Duration most);
  /// Promotions that were decided about, so far. Those that are not driven from here sleep in
  /// wait_until_settled() until there are others than `seen`, or so long.
  std::uint32_t settled() const noexcept;
  void wait_until_settled(std::uint32_t seen, Duration most) const;
  /// Demotes all that waits now, without lingering, and what was given up before and is here still.
  /// Errors: why a block was not kept, the last time, also before, where that tier rests still.
  Status flush();
  /// So that the next life finds sooner what is below.
  void checkpoint();
  std::size_t waiting_demotions() const;

  TieredCacheFigures figures() const;
  /// Of the tiers that blocks were read from.
  std::vector<TierCost> costs() const;

 private:
  class Core;  // tiered_cache_core.h
  explicit TieredCache(std::unique_ptr<Core> core);

  const std::unique_ptr<Core> core_;
};

}  // namespace towpath::kv
