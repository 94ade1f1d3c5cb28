#include <utility>

#include <towpath/core/text.h>
#include <towpath/kv/connector/tiered_keeper.h>

namespace towpath::kv {

Result<std::unique_ptr<TieredKeeper>> TieredKeeper::make(TieredKeeperParts parts) {
  if (parts.clock == nullptr || parts.presence == nullptr)
    return error(Code::invalid_argument, "a keeper without a clock, or a Presence",
                 "fill in TieredKeeperParts");
  auto keeper =
      std::unique_ptr<TieredKeeper>(new TieredKeeper(std::move(parts.presence), parts.algorithm));
  // At once: a block that waits can be lost with its slot, and nobody calls for its sake alone.
  TOWPATH_TRY(keeper->cache_, TieredCache::make({*parts.clock, *keeper->presence_,
                                                 std::move(parts.memory), std::move(parts.below)},
                                                {.batch_at_least = 1}));
  return keeper;
}

TieredKeeper::~TieredKeeper() {
  if (!cache_) return;
  (void)cache_->flush();
  cache_->checkpoint();
}

/// Blocks that wait to go down are not held: they go before others take their slots.
Result<std::vector<PartialBlock>> TieredKeeper::room(SlotId count) {
  const std::uint64_t slots = memory().config().num_blocks;
  while (cache_->waiting_demotions() + count > slots / 2 && cache_->progress()) {
  }
  return cache_->allocate(count);
}

Result<Digest> TieredKeeper::digest_of_slot(SlotId slot, const Digest& like) const {
  Digester digester(like.salt, like.algorithm);
  return digest_block(digester, memory(), slot);
}

Status TieredKeeper::keep(PartialBlock&& block, BlockHash hash) {
  TOWPATH_TRY(const Digest digest,
              digest_of_slot(block.slot(), {.algorithm = algorithm_, .salt = hash}));
  return cache_
      ->register_block(CompleteBlock(std::move(block), {.block = {.hash = hash}, .digest = digest}))
      .status();
}

Result<BlockRef> TieredKeeper::hold(BlockHash hash) {
  BlockRef here = cache_->host().find(hash);
  if (!here) return fetch(hash);
  const Digest& digest = here.identity().digest;
  TOWPATH_TRY(const Digest found, digest_of_slot(here.slot(), digest));
  if (found == digest) {
    ++from_memory_;
    return here;
  }
  here = {};
  cache_->host().drop(hash);
  ++damaged_in_memory_;
  if (has(hash)) return fetch(hash);
  return error(Code::corrupt, cat("block ", hex(hash), " is not what was kept in memory"),
               "make the block anew; test the memory if this comes again");
}

/// From below, proven.
Result<BlockRef> TieredKeeper::fetch(BlockHash hash) {
  constexpr Duration kNap = std::chrono::milliseconds(1);
  const CachedBlock block{hash, {}};
  TOWPATH_TRY(Promotion promotion, cache_->promote({&block, 1}));
  while (!promotion.ended())
    if (!cache_->progress()) cache_->wait_for_work(kNap);
  Promoted one = std::move(promotion.take().front());
  TOWPATH_TRY(one.status);
  if (one.block.identity().digest.salt == hash) return std::move(one.block);
  one.block = {};
  cache_->drop(hash);
  return error(Code::not_found, cat("what was kept as block ", hex(hash), " is another's"),
               "make the block anew");
}

BlockKeeper::News TieredKeeper::take_news() {
  const Presence::Events events = presence_->take_events();
  News news{
      .is_anew = !std::exchange(is_told_, true) || events.some_were_lost, .stored = {}, .lost = {}};
  // Told is what is so now, whatever happened on the way.
  for (const BlockEvent& event : news.is_anew ? presence_->snapshot() : events.events)
    (has(event.hash) ? news.stored : news.lost).push_back(event.hash);
  return news;
}

TieredKeeper::Figures TieredKeeper::figures() const {
  const TieredCacheFigures all = cache_->figures();
  Figures told{.from_memory = from_memory_,
               .quarantined = all.quarantined,
               .last_failure = all.last_failure};
  if (damaged_in_memory_ > 0) told.quarantined["host, held"] = damaged_in_memory_;
  for (const TierFigures& tier : all.below) {
    told.from_below += tier.promoted;
    told.written += tier.demoted;
    for (const auto& [what, count] : tier.failed)
      if (!what.starts_with("get")) told.not_written += count;
  }
  return told;
}

}  // namespace towpath::kv
