// What a TieredCache is made of, and does. Its own affair. Thread: as TieredCache.
#pragma once

#include <atomic>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <towpath/kv/tiers/admission.h>
#include <towpath/kv/tiers/demotion_queue.h>
#include <towpath/kv/tiers/promotion.h>
#include <towpath/kv/tiers/slot_copier.h>
#include <towpath/kv/tiers/tiered_cache.h>
#include <towpath/run/poller.h>
#include <towpath/run/waker.h>
#include <towpath/telemetry/cache_meter.h>

namespace towpath::kv {

/// The functions that TieredCache has too are as there.
class TieredCache::Core {
 public:
  static Result<std::unique_ptr<Core>> make(Parts parts, const TieredCacheOptions& options);
  ~Core();

  const layout::PhysicalLayout& layout() const noexcept { return layout_; }
  BlockPool& pool() noexcept { return *pool_; }

  Result<std::vector<PartialBlock>> allocate(SlotId count, TenantId tenant);
  Result<BlockRef> register_block(CompleteBlock&& block, const Demotion& how);
  Prefix match(std::span<const BlockHash> hashes, const std::optional<Demotion>& how);

  BlockRef find(BlockHash hash);

  void look(std::span<const BlockHash> hashes);
  std::size_t looking() const noexcept { return looking_.load(std::memory_order_relaxed); }

  Result<Promotion> promote(std::span<const CachedBlock> blocks, std::uint8_t priority);
  void demote(const BlockRef& block) { enqueue(block, {.priority = UINT8_MAX}); }
  std::size_t cancel_demotions(std::uint64_t owner);
  void drop(BlockHash hash);

  bool progress();
  void wait_for_work(Duration most);
  void idle(Duration most);
  std::uint32_t settled() const noexcept { return settled_.load(std::memory_order_acquire); }
  void wait_until_settled(std::uint32_t seen, Duration most) const;
  Status flush();
  void checkpoint();
  std::size_t waiting_demotions() const { return demotions_.size(); }

  TieredCacheFigures figures() const;
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
  Core(Parts parts, const TieredCacheOptions& options, std::unique_ptr<BlockPool> pool,
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
