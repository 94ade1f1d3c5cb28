#include <algorithm>

#include <towpath/core/text.h>
#include <towpath/kv/tiers/block_bytes.h>
#include <towpath/kv/tiers/tiered_cache.h>

namespace towpath::kv {

using run::MutexLock;

struct TieredCache::Below {
  std::unique_ptr<BlockTier> tier;
  std::size_t number = 0;  // in figures_.below
  // What follows is for whoever has work_; the histograms are anyone's to read.
  Instant rests_until{0};
  std::uint64_t unacknowledged = 0;  // blocks
  telemetry::Histogram put_ns, get_ns;
};

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
  if (parts.layout.config().format != layout::BlockFormat::nhd)
    return error(Code::unsupported,
                 cat("blocks in the format ", name_of(parts.layout.config().format)),
                 "keep the host's pool in nhd: digests and tiers have blocks in that order");
  return parts.layout.bytes({0, 0, 0}).status();
}

}  // namespace

Result<std::unique_ptr<TieredCache>> TieredCache::make(Parts parts,
                                                       const TieredCacheOptions& options) {
  TOWPATH_TRY(check(parts, options));
  const std::uint64_t slots = std::min<std::uint64_t>(parts.layout.config().num_blocks, kNoSlot);
  TOWPATH_TRY(auto host, BlockPool::make({.slots = static_cast<SlotId>(slots),
                                          .duplicates = options.duplicates,
                                          .policy = options.policy,
                                          .presence = &parts.presence}));
  std::unique_ptr<TieredCache> made(new TieredCache(std::move(parts), options, std::move(host)));
  TOWPATH_TRY(const std::uint64_t block_bytes, made->layout_.config().block_bytes());
  const MutexLock work(made->work_);
  made->aside_.resize(block_bytes);
  return made;
}

TieredCache::TieredCache(Parts parts, const TieredCacheOptions& options,
                         std::unique_ptr<BlockPool> host)
    : clock_(parts.clock),
      presence_(parts.presence),
      layout_(std::move(parts.layout)),
      options_(options),
      host_(std::move(host)),
      admission_(options.admission, host_->figures().slots),
      demotions_(options.most_waiting_demotions),
      promotions_(options.most_waiting_promotions) {
  const MutexLock figures(figures_mutex_);
  for (auto& tier : parts.below) {
    figures_.below.push_back({.name = tier->name()});
    below_.push_back(std::make_unique<Below>());
    below_.back()->tier = std::move(tier);
    below_.back()->number = below_.size() - 1;
  }
}

TieredCache::~TieredCache() = default;

// What users ask ----------------------------------------------------------------------------------

Result<std::vector<PartialBlock>> TieredCache::allocate(SlotId count) {
  auto slots = host_->allocate(count);
  if (slots.code() != Code::exhausted) return slots;
  const MutexLock nobody_copies(copying_);
  return host_->allocate(count);
}

Result<BlockRef> TieredCache::register_block(CompleteBlock&& block, const Demotion& how) {
  TOWPATH_TRY(BlockRef registered, host_->register_block(std::move(block)));
  admission_.see(registered.hash());
  offer(registered, how);
  return registered;
}

TieredCache::Prefix TieredCache::match(std::span<const BlockHash> hashes, const Demotion& how) {
  Prefix prefix{host_->match(hashes)};
  if (below_.empty()) return prefix;
  for (const BlockRef& block : prefix.here) {
    admission_.see(block.hash());
    offer(block, how);
  }
  const auto rest = hashes.subspan(prefix.here.size());
  while (prefix.below < rest.size() && presence_.tiers_of(rest[prefix.below]) != 0) ++prefix.below;
  return prefix;
}

bool TieredCache::lacks(const Below& tier, BlockHash hash) const {
  return (presence_.tiers_of(hash) & 1U << tier.tier->index()) == 0;
}

void TieredCache::offer(const BlockRef& block, const Demotion& how) {
  const BlockHash hash = block.hash();
  if (std::ranges::none_of(below_, [&](const auto& tier) { return lacks(*tier, hash); })) return;
  if (!admission_.admits(hash, how.priority)) return count(&TieredCacheFigures::not_admitted);
  const auto offered = demotions_.offer({host_->weak(block), how, clock_.now()});
  if (offered == DemotionQueue::Offered::refused || offered == DemotionQueue::Offered::in_place)
    count(&TieredCacheFigures::given_up);
}

Result<Promotion> TieredCache::promote(std::span<const CachedBlock> blocks, std::uint8_t priority) {
  return promotions_.add({blocks.begin(), blocks.end()}, priority);
}

std::size_t TieredCache::cancel_demotions(std::uint64_t owner) {
  const std::size_t cancelled = demotions_.cancel(owner);
  count(&TieredCacheFigures::cancelled, cancelled);
  return cancelled;
}

void TieredCache::drop(BlockHash hash) {
  const MutexLock work(work_);
  (void)host_->drop(hash);
  for (const auto& tier : below_) {
    if (lacks(*tier, hash)) continue;
    const Status removed = tier->tier->remove(hash);
    if (!removed.ok()) failed(*tier, "remove", removed);
  }
}

bool TieredCache::progress() {
  const MutexLock work(work_);
  const bool promoted = promote_some();
  const bool demoted = is_time_to_demote() && demote_some();
  return promoted || demoted;
}

Status TieredCache::flush() {
  const MutexLock work(work_);
  last_failure_ = {};
  while (demotions_.size() > 0 && someone_takes()) {
    (void)promote_some();
    (void)demote_some();
  }
  return last_failure_;
}

// Up ---------------------------------------------------------------------------------------------

bool TieredCache::promote_some() {
  std::size_t done = 0;
  for (; done < options_.batch_blocks; ++done) {
    const auto next = promotions_.next();
    if (!next) break;
    promotions_.settle(*next, promote_one(next->block));
  }
  return done > 0;
}

Promoted TieredCache::promote_one(const CachedBlock& block) {
  if (BlockRef here = host_->find(block.hash)) return {std::move(here), {}};
  Status why;
  for (const auto& tier : below_) {
    if (lacks(*tier, block.hash)) continue;
    Result<BlockRef> up = bring_up(*tier, block);
    if (up.ok()) return {*std::move(up), {}};
    why = up.status();
    if (why.code() == Code::exhausted) break;  // no slot, whatever the tier
  }
  if (!why.ok()) return {{}, why};
  count(&TieredCacheFigures::not_found);
  return {{}, error(Code::not_found, cat("no tier has block ", hex(block.hash)), "make it anew")};
}

Result<BlockRef> TieredCache::bring_up(Below& from, const CachedBlock& block) {
  TOWPATH_TRY(auto slots, host_->allocate(1));
  const Instant begin = clock_.now();
  const Result<Digest> digest = read_into(from, block.hash, slots.front().slot());
  from.get_ns.record(clock_.now() - begin);
  if (!digest.ok()) {
    failed(from, "get", digest.status());
    if (digest.code() == Code::corrupt) count_quarantined(cat(from.tier->name(), ", coming up"));
    return digest.status();
  }
  {
    const MutexLock figures(figures_mutex_);
    ++figures_.below[from.number].promoted;
    figures_.below[from.number].promoted_bytes += aside_.size();
  }
  return host_->register_block(CompleteBlock(std::move(slots.front()), {block, *digest}));
}

Result<Digest> TieredCache::read_into(Below& from, BlockHash hash, SlotId slot) {
  if (const auto whole = in_one_piece(layout_, slot)) return from.tier->get(hash, *whole);
  TOWPATH_TRY(const Digest digest, from.tier->get(hash, aside_));
  TOWPATH_TRY(scatter(aside_, layout_, slot));
  return digest;
}

// Down -------------------------------------------------------------------------------------------

bool TieredCache::is_time_to_demote() const {
  if (demotions_.size() >= options_.batch_at_least) return true;
  const Instant oldest = demotions_.oldest();
  return oldest != Instant::never() && clock_.now() - oldest >= options_.linger;
}

bool TieredCache::takes(const Below& tier) const { return clock_.now() >= tier.rests_until; }

bool TieredCache::someone_takes() const {
  for (const auto& tier : below_)
    if (takes(*tier)) return true;
  return false;
}

bool TieredCache::demote_some() {
  std::size_t done = 0;
  for (; done < options_.batch_blocks && promotions_.size() == 0 && someone_takes(); ++done) {
    const auto waiting = demotions_.pop();
    if (!waiting) break;
    demote_one(*waiting);
  }
  acknowledge_all();
  return done > 0;
}

void TieredCache::demote_one(const DemotionQueue::Waiting& waiting) {
  const BlockHash hash = waiting.block.hash;
  std::optional<Digest> digest;  // once the block is aside
  for (const auto& tier : below_) {
    if (!takes(*tier) || !lacks(*tier, hash)) continue;
    if (!digest) digest = copy_aside(waiting.block);
    if (!digest) return count(&TieredCacheFigures::gone);
    if (!put(*tier, hash, *digest)) return;
  }
}

std::optional<Digest> TieredCache::copy_aside(const WeakBlock& block) {
  const MutexLock copying(copying_);
  const ByteSpan aside = aside_;
  std::optional<Digest> digest;
  host_->look(block, [&](const BlockIdentity& identity, SlotId slot) {
    if (gather(layout_, slot, aside).ok()) digest = identity.digest;
  });
  return digest;
}

bool TieredCache::put(Below& into, BlockHash hash, const Digest& digest) {
  const Instant begin = clock_.now();
  const Status kept = into.tier->put(hash, digest, aside_);
  into.put_ns.record(clock_.now() - begin);
  if (kept.ok()) {
    ++into.unacknowledged;
  } else if (kept.code() == Code::corrupt) {
    (void)host_->drop(hash);
    count_quarantined("host, going down");
    return false;
  } else {
    failed(into, "put", kept);
    into.rests_until = clock_.now() + options_.rest;
  }
  return true;
}

void TieredCache::acknowledge_all() {
  for (const auto& tier : below_) {
    if (tier->unacknowledged == 0) continue;
    const Status done = tier->tier->acknowledge();
    const std::uint64_t blocks = std::exchange(tier->unacknowledged, 0);
    if (!done.ok()) {
      failed(*tier, "acknowledge", done);
      tier->rests_until = clock_.now() + options_.rest;
      continue;
    }
    const MutexLock figures(figures_mutex_);
    figures_.below[tier->number].demoted += blocks;
    figures_.below[tier->number].demoted_bytes += blocks * aside_.size();
  }
}

// Figures ----------------------------------------------------------------------------------------

void TieredCache::failed(Below& tier, const char* doing, const Status& status) {
  last_failure_ = status;
  const MutexLock figures(figures_mutex_);
  ++figures_.below[tier.number].failed[cat(doing, ": ", name_of(status.code()))];
}

void TieredCache::count(std::uint64_t TieredCacheFigures::*figure, std::uint64_t by) {
  const MutexLock figures(figures_mutex_);
  figures_.*figure += by;
}

void TieredCache::count_quarantined(const std::string& where) {
  const MutexLock figures(figures_mutex_);
  ++figures_.quarantined[where];
}

TieredCacheFigures TieredCache::figures() const {
  TieredCacheFigures all;
  {
    const MutexLock figures(figures_mutex_);
    all = figures_;
  }
  for (const auto& tier : below_) {
    all.below[tier->number].put_ns = tier->put_ns.summary();
    all.below[tier->number].get_ns = tier->get_ns.summary();
  }
  all.host = host_->figures();
  all.waiting_demotions = demotions_.size();
  all.waiting_promotions = promotions_.size();
  all.cancelled += promotions_.cancelled();
  return all;
}

}  // namespace towpath::kv
