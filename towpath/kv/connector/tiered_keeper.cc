#include <algorithm>
#include <ranges>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/kv/connector/hint_runner.h>
#include <towpath/kv/connector/tiered_keeper.h>
#include <towpath/kv/peers/block_collector.h>
#include <towpath/kv/peers/hand_over.h>
#include <towpath/kv/peers/peer_leases.h>
#include <towpath/kv/tiers/relayed_tier.h>
#include <towpath/run/worker.h>

namespace towpath::kv {

Result<std::unique_ptr<TieredKeeper>> TieredKeeper::make(TieredKeeperParts parts) {
  if (parts.clock == nullptr || parts.block_directory == nullptr)
    return error(Code::invalid_argument, "a keeper without a clock, or a BlockDirectory",
                 "fill in TieredKeeperParts");
  auto keeper = std::unique_ptr<TieredKeeper>(new TieredKeeper(parts));
  const bool background = parts.background;
  TOWPATH_TRY(keeper->open(std::move(parts)));
  if (background) TOWPATH_TRY(keeper->start_background());
  return keeper;
}

Status TieredKeeper::open(TieredKeeperParts parts) {
  PeerTier* leased = nullptr;
  PeerTierOptions reported;
  if (parts.peers) {
    agent_ = parts.peers->agent;
    peers_tier_ = static_cast<TierIndex>(parts.below.empty() ? 1 : parts.below.back()->index() + 1);
    reported = {.agent = parts.peers->agent,
                .manager = parts.peers->manager,
                .block_directory = block_directory_.get(),
                .tier = peers_tier_,
                .share = {parts.peers->name_space, parts.memory.config(), parts.peers->first_layer,
                          parts.peers->first_head},
                .timeout = parts.peers->timeout,
                .staged_blocks = parts.peers->staged_blocks};
    if (parts.peers->collects) reported.most_tasks = parts.memory.config().num_blocks / 2;
    TOWPATH_TRY(auto tier, PeerTier::make(reported));
    leased = tier.get();
    parts.below.push_back(std::move(tier));
    if (parts.background) TOWPATH_TRY(relay(parts.below.back(), *parts.peers->agent));
  }
  for (const auto& tier : parts.below)
    if (tier->takes_blocks()) below_ |= static_cast<std::uint16_t>(1U << tier->index());
  lasting_ = below_;
  if (parts.peers && parts.peers->hands_over)
    lasting_ |= static_cast<std::uint16_t>(1U << peers_tier_);
  // At once: a block that waits can be lost with its slot, and nobody calls for its sake alone.
  parts.cache.batch_at_least = 1;
  TOWPATH_TRY(cache_, TieredCache::make({*parts.clock, *block_directory_, std::move(parts.memory),
                                         std::move(parts.below), parts.meter},
                                        parts.cache));
  take_hints(*parts.clock);
  if (!parts.peers) return {};
  TOWPATH_TRY(leases_, PeerLeases::make(reported, parts.peers->lease, *leased, *cache_));
  serve_or_be_served(*parts.peers);
  return {};
}

/// Of what a server has, memory may be free.
void TieredKeeper::take_hints(const Clock& clock) {
  constexpr std::uint64_t kShare = 4;  // of the slots, beside what is handed over: half
  hints_ = std::make_unique<HintRunner>(
      HintRunner::Options{.clock = &clock,
                          .block_directory = block_directory_.get(),
                          .below = lasting_,
                          .has_peers = peers_tier_ != 0,
                          .most_held = memory().config().num_blocks / kShare},
      *cache_);
}

void TieredKeeper::serve_or_be_served(const KeeperPeers& peers) {
  const Clock& clock = peers.manager->clock();
  const std::uint64_t slots = memory().config().num_blocks;
  if (peers.collects)
    collector_ = std::make_unique<BlockCollector>(
        BlockCollector::Options{
            .clock = &clock,
            .block_directory = block_directory_.get(),
            .peers = peers_tier_,
            .owners_of = [this](BlockHash hash) { return owners_of(hash); },
            // Two of a peer's are under way: a quarter of the slots at most.
            .batch_blocks = std::clamp<std::uint64_t>(slots / 8, 1, peers.staged_blocks)},
        *cache_);
  // Half of the slots stay free for what is loaded, and for what comes next.
  if (peers.hands_over)
    hand_over_ =
        std::make_unique<HandOver>(HandOver::Options{.clock = &clock,
                                                     .block_directory = block_directory_.get(),
                                                     .server = peers_tier_,
                                                     .most_blocks = slots / 2,
                                                     .timeout = peers.timeout});
}

/// As one name: what several peers have together is asked of all of them.
std::string TieredKeeper::owners_of(BlockHash hash) const {
  std::string all;
  for (const std::string& owner : leases_->known().owners_of(hash)) all += cat(owner, "\n");
  return all;
}

/// The cache has a thread, and the tier of peers stays the manager's.
Status TieredKeeper::relay(std::unique_ptr<BlockTier>& peers, agent::Agent& agent) {
  TOWPATH_TRY(auto relayed, RelayedTier::make(std::move(peers), [&agent] { agent.wake(); }));
  relayed_ = relayed.get();
  peers = std::move(relayed);
  return {};
}

Status TieredKeeper::start_background() {
  TOWPATH_TRY(run::Worker mover, run::Worker::start("kv-tiers", [this](const run::StopToken& stop) {
                move_until(stop);
              }));
  mover_ = std::make_unique<run::Worker>(std::move(mover));
  return {};
}

/// Peers may have asked for what came.
void TieredKeeper::move_until(const run::StopToken& stop) {
  constexpr Duration kNap = std::chrono::milliseconds(50);  // what no tier's descriptor shows
  for (std::uint32_t seen = 0; !stop.stop_requested();) {
    if (!cache_->progress()) cache_->idle(kNap);
    const std::uint32_t settled = cache_->settled();
    if (std::exchange(seen, settled) != settled && agent_ != nullptr) agent_->wake();
  }
}

TieredKeeper::TieredKeeper(TieredKeeperParts& parts)
    : algorithm_(parts.algorithm), block_directory_(std::move(parts.block_directory)) {}

TieredKeeper::~TieredKeeper() {
  if (!cache_) return;
  mover_.reset();
  hints_.reset();
  hand_over_.reset();
  collector_.reset();
  if (relayed_ != nullptr) relayed_->drive_here();
  leases_.reset();  // it may yet hear of somebody
  (void)cache_->flush();
  cache_->checkpoint();
}

bool TieredKeeper::progress() {
  const bool heard = leases_ && leases_->progress();
  const bool moved = mover_ ? has_settled() : cache_->progress();
  const bool relayed = relayed_ != nullptr && relayed_->drive();
  if (leases_) hear_news();
  const bool collected = collector_ && collector_->progress();
  const bool handed_over = hand_over_ && hand_over();
  const bool hinted = hints_->progress();
  return heard || moved || relayed || collected || handed_over || hinted;
}

bool TieredKeeper::hand_over() {
  if (hand_over_->held() > 0 && !leases_->has_peer()) hand_over_->give_up();
  return hand_over_->progress();
}

/// What a server has, survives this process: it is waited for, for as long as each block is held.
Status TieredKeeper::sync() {
  constexpr Duration kNap = std::chrono::milliseconds(5);  // between two reports of the server
  if (hand_over_) (void)progress();                        // what came late is heard
  while (hand_over_ && hand_over_->held() > 0)
    if (!progress()) agent_->wait_for_work(kNap);
  TOWPATH_TRY(cache_->flush());
  const std::uint64_t missing = hand_over_ ? hand_over_->take_missing() : 0;
  if (missing == 0) return {};
  return error(Code::unavailable, cat("the server did not take ", missing, " blocks"),
               "see whether `towpath serve` runs, and what it prints");
}

bool TieredKeeper::has_settled() {
  const std::uint32_t settled = cache_->settled();
  return settled != std::exchange(settled_seen_, settled);
}

void TieredKeeper::wait_for_work(Duration most) {
  if (!mover_) return cache_->wait_for_work(most);
  if (relayed_ != nullptr && relayed_->has_work()) return relayed_->wait_to_drive(most);
  cache_->wait_until_settled(settled_seen_, most);
}

/// Blocks that wait to go down are not held: they go before others take their slots, where it is
/// not a thread's business.
Result<std::vector<PartialBlock>> TieredKeeper::room(SlotId count, TenantId tenant) {
  const std::uint64_t slots = memory().config().num_blocks;
  while (!mover_ && cache_->waiting_demotions() + count > slots / 2 && cache_->progress()) {
  }
  return cache_->allocate(count, tenant);
}

Result<Digest> TieredKeeper::digest_of_slot(SlotId slot, const Digest& like) const {
  Digester digester(like.salt, like.algorithm);
  return digest_block(digester, memory(), slot);
}

Status TieredKeeper::keep(PartialBlock&& block, const KeptBlock& as) {
  TOWPATH_TRY(const Digest digest,
              digest_of_slot(block.slot(), {.algorithm = algorithm_, .salt = as.hash}));
  const BlockIdentity identity{.block = {.hash = as.hash, .parent = as.parent, .tenant = as.tenant},
                               .digest = digest};
  TOWPATH_TRY(BlockRef kept, cache_->register_block(CompleteBlock(std::move(block), identity),
                                                    {.priority = as.priority}));
  if (hand_over_ && leases_->has_peer()) hand_over_->hold(std::move(kept));
  return {};
}

// Bringing ---------------------------------------------------------------------------------------

ComingBlocks::ComingBlocks(TieredKeeper& keeper, std::span<const CachedBlock> blocks,
                           std::uint8_t priority)
    : keeper_(keeper) {
  std::vector<CachedBlock> missing;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    Result<BlockRef> here = keeper_.from_memory(blocks[i].hash);
    if (here.ok()) {
      known_.push_back({i, *std::move(here), {}});
    } else if (!keeper_.has(blocks[i].hash)) {
      known_.push_back({i, {}, here.status()});
    } else {
      missing.push_back(blocks[i]);
      below_.push_back({i, blocks[i].hash});
    }
  }
  Result<Promotion> rising = keeper_.cache_->promote(missing, priority);
  if (rising.ok()) {
    rising_ = *std::move(rising);
    return;
  }
  for (const OfLowerTiers& one : below_) known_.push_back({one.index, {}, rising.status()});
  below_.clear();
}

std::vector<ComingBlocks::Came> ComingBlocks::take() {
  std::vector<Came> came = std::exchange(known_, {});
  if (!rising_) return came;
  for (Promoted& one : rising_->take()) {
    const OfLowerTiers& wanted = below_[promoted_++];
    if (one.status.ok()) one.status = keeper_.check_name(one.block, wanted.hash);
    came.push_back({wanted.index, std::move(one.block), std::move(one.status)});
  }
  return came;
}

std::unique_ptr<ComingBlocks> TieredKeeper::bring(std::span<const CachedBlock> blocks,
                                                  std::uint8_t priority) {
  return std::unique_ptr<ComingBlocks>(new ComingBlocks(*this, blocks, priority));
}

std::vector<Result<BlockRef>> TieredKeeper::hold(std::span<const BlockHash> hashes,
                                                 const std::function<void()>& meanwhile) {
  constexpr Duration kNap = std::chrono::milliseconds(1);
  std::vector<Result<BlockRef>> held(hashes.size(), BlockRef());
  std::vector<CachedBlock> blocks(hashes.size());
  std::ranges::transform(hashes, blocks.begin(), [](BlockHash hash) {
    return CachedBlock{hash, {}};
  });
  for (const auto coming = bring(blocks, kUsualPriority);;) {
    for (ComingBlocks::Came& came : coming->take()) {
      if (came.status.ok())
        held[came.index] = std::move(came.block);
      else
        held[came.index] = std::move(came.status);
    }
    if (coming->left() == 0) return held;
    const bool more = progress();
    if (meanwhile) meanwhile();
    if (!more) wait_for_work(kNap);
  }
}

/// Proven. Being wanted is to be seen: that may be what the block needs to go down.
Result<BlockRef> TieredKeeper::from_memory(BlockHash hash) {
  std::vector<BlockRef> found = cache_->match(std::span(&hash, 1)).here;
  if (found.empty())
    return error(Code::not_found, cat("no tier has block ", hex(hash)), "make it anew");
  BlockRef here = std::move(found.front());
  TOWPATH_TRY(check_name(here, hash));
  const Digest& digest = here.identity().digest;
  TOWPATH_TRY(const Digest of_bytes, digest_of_slot(here.slot(), digest));
  if (of_bytes == digest) {
    ++from_memory_;
    return here;
  }
  here = {};
  cache_->pool().drop(hash);
  ++damaged_in_memory_;
  return error(Code::corrupt, cat("block ", hex(hash), " is not what was kept in memory"),
               "make the block anew; test the memory if this comes again");
}

/// Its digest is salted with its hash, or it is another's.
Status TieredKeeper::check_name(BlockRef& block, BlockHash hash) {
  if (block.identity().digest.salt == hash) return {};
  block = {};
  cache_->drop(hash);
  return error(Code::not_found, cat("what was kept as block ", hex(hash), " is another's"),
               "make the block anew");
}

/// Peers are told of changes here soon after, the keeper's user when it asks.
void TieredKeeper::hear_news() {
  constexpr std::size_t kMostKept = std::size_t{1} << 16U;
  BlockDirectory::Events events = block_directory_->take_events();
  if (leases_) leases_->note_changes(events);
  if (collector_) collector_->note(events);
  news_.some_were_lost = news_.some_were_lost || events.some_were_lost;
  news_.events.insert(news_.events.end(), events.events.begin(), events.events.end());
  if (news_.events.size() <= kMostKept) return;
  // As the directory does, and as a report has room for.
  const std::size_t most = block_directory_->size() / BlockDirectory::kBlocksPerEvent;
  if (news_.events.size() > std::min(most, kMostReported / 4))
    news_ = {.events = {}, .some_were_lost = true};
}

TieredKeeper::News TieredKeeper::take_news(std::size_t most) {
  if (leases_) (void)leases_->progress();  // who has no thread answers peers here, too
  (void)hints_->progress();
  hear_news();
  const BlockDirectory::Events events = std::exchange(news_, {});
  const bool goes_on = std::exchange(is_reported_, true);
  News news{.is_anew = !goes_on || events.some_were_lost,
            .goes_on = goes_on && events.some_were_lost,
            .stored = {},
            .lost = {}};
  // Reported is what is so now, whatever happened on the way.
  const auto report = [&](const BlockEvent& event) {
    (has(event.hash) ? news.stored : news.lost).push_back(event.hash);
  };
  if (news.is_anew)
    unreported_ = block_directory_->snapshot();
  else
    std::ranges::for_each(events.events, report);
  const std::size_t left = unreported_.size() - std::min(unreported_.size(), most);
  std::ranges::for_each(unreported_ | std::views::drop(left), report);
  unreported_.resize(left);
  if (left == 0) unreported_ = {};
  news.more_follows = left > 0;
  return news;
}

void TieredKeeper::hint(HintOrder order) { hints_->take(std::move(order)); }

std::vector<HintAnswer> TieredKeeper::take_hint_answers() { return hints_->take_answers(); }

bool TieredKeeper::has_hints() const { return !hints_->is_idle(); }

PeerFigures TieredKeeper::granting() const { return leases_ ? leases_->figures() : PeerFigures(); }

CollectorFigures TieredKeeper::collecting() const {
  return collector_ ? collector_->figures() : CollectorFigures();
}

KeeperFigures TieredKeeper::figures() const {
  const TieredCacheFigures all = cache_->figures();
  KeeperFigures reported{.from_memory = from_memory_,
                         .quarantined = all.quarantined,
                         .given_up = hand_over_ ? hand_over_->figures().given_up : 0,
                         .last_failure = all.last_failure,
                         .quota = all.pool.quota};
  if (damaged_in_memory_ > 0) reported.quarantined["host, held"] = damaged_in_memory_;
  for (std::size_t i = 0; i < all.below.size() - (leases_ ? 1 : 0); ++i) {
    const TierFigures& tier = all.below[i];
    reported.from_below[tier.name] = tier.promoted;
    reported.written += tier.demoted;
    for (const auto& [what, count] : tier.failed)
      if (!what.starts_with("get")) reported.not_written += count;
  }
  return reported;
}

}  // namespace towpath::kv
