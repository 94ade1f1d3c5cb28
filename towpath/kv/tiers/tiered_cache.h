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

#include <atomic>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/kv/blocks/block_pool.h>
#include <towpath/kv/tiers/admission.h>
#include <towpath/kv/tiers/block_tier.h>
#include <towpath/kv/tiers/demotion_queue.h>
#include <towpath/kv/tiers/promotion.h>
#include <towpath/kv/tiers/slot_copier.h>
#include <towpath/layout/physical_layout.h>
#include <towpath/run/poller.h>
#include <towpath/run/waker.h>
#include <towpath/telemetry/cache_meter.h>
#include <towpath/telemetry/metrics.h>

namespace towpath::kv {

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
  /// `clock` and `presence` outlive it; the tiers report the same BlockDirectory. Tiers in order,
  /// the fastest first. Errors: invalid_argument (options, tiers out of order), unsupported (a
  /// layout that this process cannot read block by block); those of SlotCopier::make().
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

  const layout::PhysicalLayout& layout() const noexcept { return layout_; }
  BlockPool& pool() noexcept { return *pool_; }

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
  /// then on. A hope: of too many the last are not looked for.
  void look(std::span<const BlockHash> hashes);
  /// Answers that are awaited. Cost: one load.
  std::size_t looking() const noexcept { return looking_.load(std::memory_order_relaxed); }

  /// Brings blocks up. Errors: exhausted (too many wait: ask again later, or make them anew).
  Result<Promotion> promote(std::span<const CachedBlock> blocks,
                            std::uint8_t priority = kUsualPriority);
  /// Demoted before all others, whatever its admission.
  void demote(const BlockRef& block) { enqueue(block, {.priority = UINT8_MAX}); }
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
  std::uint32_t settled() const noexcept { return settled_.load(std::memory_order_acquire); }
  void wait_until_settled(std::uint32_t seen, Duration most) const;
  /// Demotes all that waits now, without lingering, and what was given up before and is here still.
  /// Errors: why a block was not kept, the last time, also before, where that tier rests still.
  Status flush();
  /// So that the next life finds sooner what is below.
  void checkpoint();
  std::size_t waiting_demotions() const { return demotions_.size(); }

  TieredCacheFigures figures() const;
  /// Of the tiers that blocks were read from.
  std::vector<TierCost> costs() const;

 private:
  struct TierState;  // in_flight.h, as the next three
  struct TierRequest;
  struct PromotionInFlight;
  struct DemotionInFlight;
  struct Look {
    TierState* tier;
    BlockHash hash;
  };
  /// What a thread that drives the cache sleeps beside.
  struct Alarm {
    std::unique_ptr<run::Waker> waker;
    run::Poller tiers;
  };
  TieredCache(Parts parts, const TieredCacheOptions& options, std::unique_ptr<BlockPool> pool,
              std::unique_ptr<SlotCopier> copier, Alarm alarm, std::uint64_t block_bytes);

  void wake() const;
  std::size_t report_found(std::size_t here, std::span<const BlockHash> others);
  void offer(const BlockRef& block, const Demotion& how);
  void enqueue(const BlockRef& block, const Demotion& how);
  void offer(const DemotionQueue::Waiting& waiting);
  void note_given_up(const DemotionQueue::Waiting& waiting);
  std::vector<DemotionQueue::Waiting> take_given_up();
  bool lacks(const TierState& tier, BlockHash hash) const;

  void begin(TierRequest& request) TOWPATH_REQUIRES(work_);
  bool start_begun() TOWPATH_REQUIRES(work_);
  bool is_over(TierRequest& request) TOWPATH_REQUIRES(work_);
  bool progress_tiers() TOWPATH_REQUIRES(work_);
  void wait_for_any(Duration most) TOWPATH_REQUIRES(work_);
  void cancel_all() TOWPATH_REQUIRES(work_);

  bool look_some() TOWPATH_REQUIRES(work_);
  std::optional<Look> next_look();

  bool promote_some() TOWPATH_REQUIRES(work_);
  bool may_begin(BlockHash hash) const TOWPATH_REQUIRES(work_);
  bool may_promote() TOWPATH_REQUIRES(work_);
  bool settle(PromotionInFlight& promotion) TOWPATH_REQUIRES(work_);
  std::optional<Promoted> advance(PromotionInFlight& promotion) TOWPATH_REQUIRES(work_);
  Status begin_next(PromotionInFlight& promotion) TOWPATH_REQUIRES(work_);
  void copy_in(PromotionInFlight& promotion) TOWPATH_REQUIRES(work_);
  Status prove_arrival(const PromotionInFlight& promotion) TOWPATH_REQUIRES(work_);
  Result<BlockRef> arrive(PromotionInFlight& promotion) TOWPATH_REQUIRES(work_);

  bool demote_some(bool at_once) TOWPATH_REQUIRES(work_);
  bool is_time_to_demote() const;
  void demote_one(const DemotionQueue::Waiting& waiting) TOWPATH_REQUIRES(work_);
  void copy_aside(DemotionInFlight& demotion) TOWPATH_REQUIRES(work_);
  void end_demotions() TOWPATH_REQUIRES(work_);
  bool advance(DemotionInFlight& demotion) TOWPATH_REQUIRES(work_);
  bool came_aside(DemotionInFlight& demotion) TOWPATH_REQUIRES(work_);
  void give_up(const DemotionInFlight& demotion) TOWPATH_REQUIRES(work_);
  void refuse(DemotionInFlight& demotion) TOWPATH_REQUIRES(work_);
  void begin_puts(DemotionInFlight& demotion) TOWPATH_REQUIRES(work_);
  void land(DemotionInFlight& demotion, const TierRequest& request) TOWPATH_REQUIRES(work_);
  void note_state() TOWPATH_REQUIRES(work_);
  bool takes(const TierState& tier) const TOWPATH_REQUIRES(work_);
  bool wants(const TierState& tier, BlockHash hash) const TOWPATH_REQUIRES(work_);
  bool rests(const TierState& tier) const TOWPATH_REQUIRES(work_);
  bool copies_rest() const TOWPATH_REQUIRES(work_);
  bool is_here(const WeakBlock& block) const {
    return pool_->look(block, [](const BlockIdentity&, SlotId) {});
  }
  bool someone_takes() const TOWPATH_REQUIRES(work_);
  bool is_demoting(const TierState& tier, BlockHash hash) const TOWPATH_REQUIRES(work_);
  bool have_room() const TOWPATH_REQUIRES(work_);
  std::size_t most_aside() const TOWPATH_REQUIRES(work_);
  void failed(TierState& tier, const char* doing, const Status& status) TOWPATH_REQUIRES(work_);
  void copy_failed(const char* way, const Status& status) TOWPATH_REQUIRES(work_);
  void count(std::uint64_t TieredCacheFigures::*figure, std::uint64_t by = 1);
  void count_quarantined(const std::string& where);

  const Clock& clock_;
  BlockDirectory& block_directory_;
  const layout::PhysicalLayout layout_;
  const TieredCacheOptions options_;
  const std::uint64_t block_bytes_;
  std::unique_ptr<BlockPool> pool_;
  const std::string pool_name_;
  telemetry::CacheMeter meter_;
  Admission admission_;
  DemotionQueue demotions_;
  PromotionQueue promotions_;
  std::atomic<std::size_t> looking_{0};  // a figure
  const Alarm alarm_;
  std::atomic<bool> has_sleeper_{false};   // then the waker is woken
  std::atomic<std::uint32_t> settled_{0};  // release in promote_some(), acquire in settled()
  run::Mutex looks_mutex_;
  std::deque<Look> looks_ TOWPATH_GUARDED_BY(looks_mutex_);  // that wait

  run::Mutex given_up_mutex_;  // after work_
  /// Some may be in the pool no more.
  std::unordered_map<BlockHash, DemotionQueue::Waiting> given_up_
      TOWPATH_GUARDED_BY(given_up_mutex_);

  run::Mutex copying_;  // while demotion holds a block; after work_
  mutable run::Mutex work_;
  std::vector<std::unique_ptr<TierState>> below_;     // the same ones all its life
  bool has_begun_ TOWPATH_GUARDED_BY(work_) = false;  // requests, since tiers made progress
  std::list<TierRequest> looks_under_way_ TOWPATH_GUARDED_BY(work_);
  std::list<PromotionInFlight> promoting_ TOWPATH_GUARDED_BY(work_);
  std::list<DemotionInFlight> demoting_ TOWPATH_GUARDED_BY(work_);
  const std::unique_ptr<SlotCopier> copier_ TOWPATH_PT_GUARDED_BY(work_);
  Instant copies_rest_until_ TOWPATH_GUARDED_BY(work_){0};
  telemetry::Histogram copy_out_ns_, copy_in_ns_;
  Status not_kept_ TOWPATH_GUARDED_BY(work_);  // why, the last time

  mutable run::Mutex figures_mutex_;  // the last of all
  TieredCacheFigures figures_ TOWPATH_GUARDED_BY(figures_mutex_);
};

}  // namespace towpath::kv
