#include <algorithm>
#include <array>

#include <towpath/core/format.h>
#include <towpath/kv/tiers/in_flight.h>
#include <towpath/run/futex.h>
#include <towpath/sys/clock.h>

namespace towpath::kv {

using run::MutexLock;

// Making -----------------------------------------------------------------------------------------

namespace {

Status check(const TieredCache::Parts& parts, const TieredCacheOptions& options) {
  TierIndex above = 0;
  for (const auto& tier : parts.below) {
    if (tier->index() <= above || tier->index() >= kMaxTiers)
      return error(Code::invalid_argument,
                   cat("tier '", tier->name(), "' is ", tier->index(), ", behind tier ", above),
                   cat("number tiers upwards, below ", kMaxTiers));
    above = tier->index();
  }
  if (options.batch_blocks == 0 || options.batch_at_least > options.batch_blocks)
    return error(
        Code::invalid_argument,
        cat("batches of ", options.batch_at_least, " to ", options.batch_blocks, " blocks"),
        "let the most be 1 or more, and not less than the least");
  if (options.admission.min_accesses > FrequencySketch::kMost)
    return error(Code::invalid_argument,
                 cat("blocks are demoted after ", options.admission.min_accesses, " accesses"),
                 cat("count to ", int{FrequencySketch::kMost}, " at most"));
  if (options.quota_percent > 100)
    return error(Code::invalid_argument,
                 cat("a tenant may have ", options.quota_percent, " % of the memory"),
                 "use 1 to 100, or 0 for no bound");
  if (parts.layout.config().format != layout::BlockFormat::nhd)
    return error(Code::unsupported,
                 cat("blocks in the format ", name_of(parts.layout.config().format)),
                 "keep the pool in nhd: digests and tiers have blocks in that order");
  return {};
}

SlotId share_of_a_tenant(std::uint64_t slots, const TieredCacheOptions& options) {
  if (options.quota_percent == 0) return 0;
  return static_cast<SlotId>(std::max<std::uint64_t>(1, slots * options.quota_percent / 100));
}

std::string name_of_pool(const layout::PhysicalLayout& layout) {
  return layout.location().kind == MemoryKind::device ? "device" : "host";
}

std::vector<std::string> names_of(const std::string& pool,
                                  const std::vector<std::unique_ptr<BlockTier>>& below) {
  std::vector<std::string> names{pool};
  for (const auto& tier : below) names.push_back(tier->name());
  return names;
}

}  // namespace

Result<std::unique_ptr<TieredCache::Core>> TieredCache::Core::make(
    Parts parts, const TieredCacheOptions& options) {
  TOWPATH_TRY(check(parts, options));
  TOWPATH_TRY(auto copier, SlotCopier::make(parts.layout, parts.device, options.copies_at_once));
  const std::uint64_t slots = std::min<std::uint64_t>(parts.layout.config().num_blocks, kNoSlot);
  TOWPATH_TRY(auto pool, BlockPool::make({.slots = static_cast<SlotId>(slots),
                                          .duplicates = options.duplicates,
                                          .policy = options.policy,
                                          .most_of_a_tenant = share_of_a_tenant(slots, options),
                                          .block_directory = &parts.block_directory}));
  TOWPATH_TRY(const std::uint64_t block_bytes, parts.layout.config().block_bytes());
  TOWPATH_TRY(auto waker, run::Waker::open());
  TOWPATH_TRY(auto poller, run::Poller::open());
  for (const auto& tier : parts.below)
    if (tier->wait_fd() >= 0) TOWPATH_TRY(poller.add(tier->wait_fd(), tier->index()));
  return std::unique_ptr<Core>(new Core(std::move(parts), options, std::move(pool),
                                        std::move(copier), {std::move(waker), std::move(poller)},
                                        block_bytes));
}

TieredCache::Core::Core(Parts parts, const TieredCacheOptions& options,
                        std::unique_ptr<BlockPool> pool, std::unique_ptr<SlotCopier> copier,
                        Alarm alarm, std::uint64_t block_bytes)
    : clock_(parts.clock),
      block_directory_(parts.block_directory),
      layout_(std::move(parts.layout)),
      options_(options),
      block_bytes_(block_bytes),
      pool_(std::move(pool)),
      pool_name_(name_of_pool(layout_)),
      meter_(parts.meter, names_of(pool_name_, parts.below), block_bytes_),
      admission_(options.admission, pool_->figures().slots),
      demotions_(options.most_waiting_demotions),
      promotions_(options.most_waiting_promotions),
      alarm_(std::move(alarm)),
      copier_(std::move(copier)) {
  const MutexLock figures(figures_mutex_);
  for (auto& tier : parts.below) {
    figures_.below.push_back({.name = tier->name()});
    below_.push_back(std::make_unique<TierState>());
    below_.back()->tier = std::move(tier);
    below_.back()->number = below_.size() - 1;
  }
}

TieredCache::Core::~Core() {
  const MutexLock work(work_);
  cancel_all();
  meter_.waits(0, 0);
}

// What users ask ----------------------------------------------------------------------------------

Result<std::vector<PartialBlock>> TieredCache::Core::allocate(SlotId count, TenantId tenant) {
  auto slots = pool_->allocate(count, nullptr, tenant);
  if (slots.code() != Code::exhausted) return slots;
  const MutexLock nobody_copies(copying_);
  return pool_->allocate(count, nullptr, tenant);
}

Result<BlockRef> TieredCache::Core::register_block(CompleteBlock&& block, const Demotion& how) {
  TOWPATH_TRY(BlockRef registered, pool_->register_block(std::move(block), how.priority));
  admission_.see(registered.hash());
  offer(registered, how);
  return registered;
}

TieredCache::Prefix TieredCache::Core::match(std::span<const BlockHash> hashes,
                                             const std::optional<Demotion>& how) {
  Prefix prefix{pool_->match(hashes)};
  for (const BlockRef& block : prefix.here) {
    if (below_.empty()) break;
    admission_.see(block.hash());
    offer(block, how.value_or(Demotion{.priority = block.priority()}));
  }
  prefix.below = report_found(prefix.here.size(), hashes.subspan(prefix.here.size()));
  return prefix;
}

BlockRef TieredCache::Core::find(BlockHash hash) {
  BlockRef here = pool_->find(hash);
  (void)report_found(here ? 1 : 0, std::span(&hash, here ? 0 : 1));
  return here;
}

/// So many are here; how many of the others, which follow, lie below without a gap? Each is counted
/// where it is reached fastest.
std::size_t TieredCache::Core::report_found(std::size_t here, std::span<const BlockHash> others) {
  std::array<std::uint64_t, kMaxTiers + 1> counts{here};
  const auto is_at = [&](std::uint16_t tiers, std::size_t place) {
    return (tiers & 1U << (place == 0 ? 0 : below_[place - 1]->tier->index())) != 0;
  };
  std::size_t below = 0;
  for (; below < others.size(); ++below) {
    const std::uint16_t tiers = block_directory_.tiers_of(others[below]);
    if (tiers == 0) break;
    std::size_t place = 0;
    while (place <= below_.size() && !is_at(tiers, place)) ++place;
    ++counts[place];
  }
  counts[below_.size() + 1] += others.size() - below;
  meter_.found(std::span(counts).first(below_.size() + 2));
  return below;
}

bool TieredCache::Core::lacks(const TierState& tier, BlockHash hash) const {
  return (block_directory_.tiers_of(hash) & 1U << tier.tier->index()) == 0;
}

void TieredCache::Core::offer(const BlockRef& block, const Demotion& how) {
  const BlockHash hash = block.hash();
  const auto may_take = [&](const auto& it) {
    return it->tier->takes_blocks() && lacks(*it, hash);
  };
  if (std::ranges::none_of(below_, may_take)) return;
  if (!admission_.admits(hash, how.priority)) return count(&TieredCacheFigures::not_admitted);
  enqueue(block, how);
}

void TieredCache::Core::enqueue(const BlockRef& block, const Demotion& how) {
  offer({pool_->weak(block), how, clock_.now()});
  wake();
}

void TieredCache::Core::offer(const DemotionQueue::Waiting& waiting) {
  std::optional<DemotionQueue::Waiting> gone;
  (void)demotions_.offer(waiting, &gone);
  if (!gone) return;
  count(&TieredCacheFigures::given_up);
  note_given_up(*gone);
}

/// For the next flush(), which is to keep what is here.
void TieredCache::Core::note_given_up(const DemotionQueue::Waiting& waiting) {
  std::unordered_map<BlockHash, DemotionQueue::Waiting> all;
  {
    const MutexLock given_up(given_up_mutex_);
    given_up_.insert_or_assign(waiting.block.hash, waiting);
    if (given_up_.size() <= 2 * layout_.config().num_blocks) return;
    all.swap(given_up_);
  }
  std::erase_if(all, [&](const auto& one) { return !is_here(one.second.block); });
  const MutexLock given_up(given_up_mutex_);
  given_up_.merge(all);
}

std::vector<DemotionQueue::Waiting> TieredCache::Core::take_given_up() {
  std::unordered_map<BlockHash, DemotionQueue::Waiting> all;
  {
    const MutexLock given_up(given_up_mutex_);
    all.swap(given_up_);
  }
  std::vector<DemotionQueue::Waiting> here;
  for (const auto& [hash, waiting] : all)
    if (is_here(waiting.block)) here.push_back(waiting);
  return here;
}

void TieredCache::Core::look(std::span<const BlockHash> hashes) {
  const MutexLock looks(looks_mutex_);
  for (const BlockHash hash : hashes)
    for (const auto& tier : below_) {
      if (!tier->tier->must_be_asked() || !lacks(*tier, hash)) continue;
      if (looks_.size() >= options_.most_waiting_promotions) return;
      looks_.push_back({tier.get(), hash});
      looking_.fetch_add(1, std::memory_order_relaxed);
    }
  wake();
}

Result<Promotion> TieredCache::Core::promote(std::span<const CachedBlock> blocks,
                                             std::uint8_t priority) {
  Result<Promotion> promotion = promotions_.add({blocks.begin(), blocks.end()}, priority);
  wake();
  return promotion;
}

std::size_t TieredCache::Core::cancel_demotions(std::uint64_t owner) {
  const std::size_t cancelled = demotions_.cancel(owner);
  {
    const MutexLock given_up(given_up_mutex_);
    std::erase_if(given_up_, [&](const auto& one) { return one.second.how.owner == owner; });
  }
  count(&TieredCacheFigures::cancelled, cancelled);
  return cancelled;
}

void TieredCache::Core::drop(BlockHash hash) {
  const MutexLock work(work_);
  (void)pool_->drop(hash);
  for (PromotionInFlight& promotion : promoting_)
    if (promotion.request && promotion.wanted.block.hash == hash) promotion.is_unwanted = true;
  for (DemotionInFlight& demotion : demoting_)
    demotion.is_unwanted = demotion.is_unwanted || demotion.block.hash == hash;
  for (const auto& tier : below_) {
    if (lacks(*tier, hash)) continue;
    const Status removed = tier->tier->remove(hash);
    if (!removed.ok()) failed(*tier, "remove", removed);
  }
}

bool TieredCache::Core::progress() {
  alarm_.waker->clear();  // before the look: what comes behind it wakes the next sleep
  const MutexLock work(work_);
  const bool moved = progress_tiers();
  const bool promoted = promote_some();
  const bool looked = look_some();
  const bool begun = start_begun();  // reads go before what demotion copies
  const bool demoted = demote_some(false);
  const bool copied = copier_->progress();
  note_state();
  return moved || promoted || looked || begun || demoted || copied;
}

void TieredCache::Core::wait_for_work(Duration most) {
  const MutexLock work(work_);
  wait_for_any(most);
}

void TieredCache::Core::wait_for_any(Duration most) {
  if (copier_->wait()) return;
  for (const auto& tier : below_)
    if (tier->under_way > 0) return tier->tier->wait_for_work(most);
}

/// Pairs with idle(): a caller that has pushed work sees the sleeper, or the sleeper sees the work.
void TieredCache::Core::wake() const {
  if (has_sleeper_.load(std::memory_order_seq_cst)) alarm_.waker->wake();
}

void TieredCache::Core::idle(Duration most) {
  constexpr Duration kNap = std::chrono::milliseconds(1);  // of tiers that have no descriptor
  if (!has_sleeper_.exchange(true, std::memory_order_seq_cst)) return;
  {
    const MutexLock work(work_);
    if (copier_->wait()) return;
    for (const auto& tier : below_)
      if (tier->under_way > 0 && tier->tier->wait_fd() < 0) most = std::min(most, kNap);
  }
  (void)alarm_.tiers.wait_beside(*alarm_.waker, most);
}

void TieredCache::Core::wait_until_settled(std::uint32_t seen, Duration most) const {
  (void)run::futex_wait(settled_, seen,
                        {.deadline = run::Deadline::after(sys::SystemClock(), most)});
}

Status TieredCache::Core::flush() {
  constexpr Duration kNap = std::chrono::milliseconds(10);
  const MutexLock work(work_);
  bool someone_rests = copies_rest();
  for (const auto& tier : below_)
    someone_rests = someone_rests || (tier->tier->takes_blocks() && rests(*tier));
  if (!someone_rests) not_kept_ = {};
  const std::size_t most = std::max<std::size_t>(1, options_.most_waiting_demotions);
  std::vector<DemotionQueue::Waiting> again = take_given_up();
  while ((demotions_.size() + again.size() > 0 && someone_takes()) || !demoting_.empty()) {
    for (; !again.empty() && demotions_.size() < most; again.pop_back()) offer(again.back());
    const bool moved = progress_tiers();
    const bool promoted = promote_some();
    const bool demoted = demote_some(true);
    if (copier_->progress() || demoted || moved || promoted) continue;
    wait_for_any(kNap);
  }
  std::ranges::for_each(again, [&](const auto& one) { note_given_up(one); });
  note_state();
  return not_kept_;
}

void TieredCache::Core::checkpoint() {
  const MutexLock work(work_);
  for (const auto& tier : below_) tier->tier->checkpoint();
}

// Figures ----------------------------------------------------------------------------------------

void TieredCache::Core::failed(TierState& tier, const char* doing, const Status& status) {
  const MutexLock figures(figures_mutex_);
  figures_.last_failure = status;
  ++figures_.below[tier.number].failed[cat(doing, ": ", name_of(status.code()))];
}

void TieredCache::Core::copy_failed(const char* way, const Status& status) {
  const MutexLock figures(figures_mutex_);
  figures_.last_failure = status;
  ++figures_.failed_copies[cat(way, ": ", name_of(status.code()))];
}

void TieredCache::Core::note_state() {
  meter_.waits(promotions_.size(), demotions_.size());
  if (options_.quota_percent > 0) meter_.over_quota(pool_->evicted_over_quota());
  const MutexLock figures(figures_mutex_);
  for (const auto& tier : below_) figures_.below[tier->number].room = tier->tier->room();
}

void TieredCache::Core::count(std::uint64_t TieredCacheFigures::*figure, std::uint64_t by) {
  const MutexLock figures(figures_mutex_);
  figures_.*figure += by;
}

void TieredCache::Core::count_quarantined(const std::string& where) {
  const MutexLock figures(figures_mutex_);
  ++figures_.quarantined[where];
}

std::vector<TierCost> TieredCache::Core::costs() const {
  std::vector<TierCost> all;
  for (const auto& tier : below_)
    if (const Duration one = tier->reading.per_block(); one > Duration{0})
      all.push_back({tier->tier->index(), one});
  return all;
}

TieredCacheFigures TieredCache::Core::figures() const {
  TieredCacheFigures all;
  {
    const MutexLock figures(figures_mutex_);
    all = figures_;
  }
  for (const auto& tier : below_) {
    all.below[tier->number].put_ns = tier->put_ns.summary();
    all.below[tier->number].get_ns = tier->get_ns.summary();
  }
  all.copy_out_ns = copy_out_ns_.summary();
  all.copy_in_ns = copy_in_ns_.summary();
  all.pool = pool_->figures();
  all.waiting_demotions = demotions_.size();
  all.waiting_promotions = promotions_.size();
  all.cancelled += promotions_.cancelled();
  return all;
}

// The class that users see
// -------------------------------------------------------------------------

TieredCache::TieredCache(std::unique_ptr<Core> core) : core_(std::move(core)) {}
TieredCache::~TieredCache() = default;

Result<std::unique_ptr<TieredCache>> TieredCache::make(Parts parts,
                                                       const TieredCacheOptions& options) {
  TOWPATH_TRY(auto core, Core::make(std::move(parts), options));
  return std::unique_ptr<TieredCache>(new TieredCache(std::move(core)));
}

const layout::PhysicalLayout& TieredCache::layout() const noexcept { return core_->layout(); }
BlockPool& TieredCache::pool() noexcept { return core_->pool(); }

Result<std::vector<PartialBlock>> TieredCache::allocate(SlotId count, TenantId tenant) {
  return core_->allocate(count, tenant);
}
Result<BlockRef> TieredCache::register_block(CompleteBlock&& block, const Demotion& how) {
  return core_->register_block(std::move(block), how);
}
TieredCache::Prefix TieredCache::match(std::span<const BlockHash> hashes,
                                       const std::optional<Demotion>& how) {
  return core_->match(hashes, how);
}
BlockRef TieredCache::find(BlockHash hash) { return core_->find(hash); }
void TieredCache::look(std::span<const BlockHash> hashes) { core_->look(hashes); }
std::size_t TieredCache::looking() const noexcept { return core_->looking(); }
Result<Promotion> TieredCache::promote(std::span<const CachedBlock> blocks, std::uint8_t priority) {
  return core_->promote(blocks, priority);
}
void TieredCache::demote(const BlockRef& block) { core_->demote(block); }
std::size_t TieredCache::cancel_demotions(std::uint64_t owner) {
  return core_->cancel_demotions(owner);
}
void TieredCache::drop(BlockHash hash) { core_->drop(hash); }

bool TieredCache::progress() { return core_->progress(); }
void TieredCache::wait_for_work(Duration most) { core_->wait_for_work(most); }
void TieredCache::idle(Duration most) { core_->idle(most); }
std::uint32_t TieredCache::settled() const noexcept { return core_->settled(); }
void TieredCache::wait_until_settled(std::uint32_t seen, Duration most) const {
  core_->wait_until_settled(seen, most);
}
Status TieredCache::flush() { return core_->flush(); }
void TieredCache::checkpoint() { core_->checkpoint(); }
std::size_t TieredCache::waiting_demotions() const { return core_->waiting_demotions(); }
TieredCacheFigures TieredCache::figures() const { return core_->figures(); }
std::vector<TierCost> TieredCache::costs() const { return core_->costs(); }

}  // namespace towpath::kv
