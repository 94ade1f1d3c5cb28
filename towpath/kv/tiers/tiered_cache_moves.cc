// What a TieredCache does with blocks that are on their way.
#include <algorithm>
#include <utility>

#include <towpath/core/text.h>
#include <towpath/kv/tiers/block_bytes.h>
#include <towpath/kv/tiers/in_flight.h>

namespace towpath::kv {

using run::MutexLock;

// Tasks ------------------------------------------------------------------------------------------

void TieredCache::begin(Crossing& crossing) {
  crossing.since = clock_.now();
  ++crossing.tier.under_way;
  if (crossing.task.kind == TierTask::Kind::put) ++crossing.tier.puts_under_way;
  crossing.tier.tier->begin(crossing.task);
}

/// Gives its place back, the first time that it is.
bool TieredCache::is_over(Crossing& crossing) {
  if (crossing.is_over || !crossing.task.has_ended) return crossing.is_over;
  crossing.is_over = true;
  Below& tier = crossing.tier;
  --tier.under_way;
  if (crossing.task.kind == TierTask::Kind::put) --tier.puts_under_way;
  const Duration took = clock_.now() - crossing.since;
  if (crossing.task.kind == TierTask::Kind::put) tier.put_ns.record(took);
  if (crossing.task.kind == TierTask::Kind::get) tier.get_ns.record(took);
  return true;
}

Bytes TieredCache::take_spare() {
  Bytes bytes;
  if (!spare_.empty()) {
    bytes = std::move(spare_.back());
    spare_.pop_back();
  }
  bytes.resize(block_bytes_);
  return bytes;
}

bool TieredCache::progress_tiers() {
  bool more = false;
  for (const auto& tier : below_) more = tier->tier->progress() || more;
  return more;
}

void TieredCache::cancel_all() {
  constexpr Duration kNap = std::chrono::milliseconds(10);
  std::vector<Crossing*> all;
  for (Crossing& look : looks_under_way_) all.push_back(&look);
  for (Rise& rise : rises_)
    if (rise.crossing) all.push_back(&*rise.crossing);
  for (Fall& fall : falls_)
    for (Crossing& put : fall.crossings) all.push_back(&put);
  for (Crossing* crossing : all)
    if (!crossing->task.has_ended) crossing->tier.tier->cancel(crossing->task);
  while (!all.empty()) {
    (void)progress_tiers();
    if (std::erase_if(all, [](const Crossing* one) { return one->task.has_ended; }) == 0)
      all.front()->tier.tier->wait_for_work(kNap);
  }
}

// Looking ----------------------------------------------------------------------------------------

std::optional<TieredCache::Look> TieredCache::next_look() {
  const MutexLock looks(looks_mutex_);
  if (looks_.empty() || !looks_.front().tier->has_place_for(TierTask::Kind::look))
    return std::nullopt;
  const Look next = looks_.front();
  looks_.pop_front();
  return next;
}

bool TieredCache::look_some() {
  std::size_t done = 0;
  for (; done < options_.batch_blocks && promotions_.waiting() == 0; ++done) {
    const auto next = next_look();
    if (!next) break;
    looks_under_way_.emplace_back(*next->tier,
                                  TierTask{.kind = TierTask::Kind::look, .hash = next->hash});
    begin(looks_under_way_.back());
  }
  for (auto look = looks_under_way_.begin(); look != looks_under_way_.end();) {
    const auto here = look++;
    if (!is_over(*here)) continue;
    const Status& said = here->task.status;
    if (!said.ok() && said.code() != Code::not_found) failed(here->tier, "look", said);
    looking_.fetch_sub(1, std::memory_order_relaxed);
    looks_under_way_.erase(here);
  }
  return done > 0;
}

// Up ---------------------------------------------------------------------------------------------

bool TieredCache::promote_some() {
  std::size_t done = 0;
  for (auto rise = rises_.begin(); rise != rises_.end();) {
    const auto here = rise++;
    if (settle(*here)) {
      rises_.erase(here);
      ++done;
    }
  }
  while (done < options_.batch_blocks) {
    const auto next =
        promotions_.next([&](const CachedBlock& block) { return may_begin(block.hash); });
    if (!next) break;
    rises_.push_back({.wanted = *next});
    if (settle(rises_.back())) {
      rises_.pop_back();
      ++done;
    }
  }
  return done > 0;
}

/// The first tier that has it has a place; or none has it, and that is soon told.
bool TieredCache::may_begin(BlockHash hash) const {
  for (const auto& tier : below_)
    if (!lacks(*tier, hash)) return tier->has_place_for(TierTask::Kind::get);
  return true;
}

/// False: not yet.
bool TieredCache::settle(Rise& rise) {
  std::optional<Promoted> came = advance(rise);
  if (!came) return false;
  if (!rise.aside.empty()) spare_.push_back(std::move(rise.aside));
  promotions_.settle(rise.wanted, *std::move(came));
  return true;
}

/// As far as it goes now.
std::optional<Promoted> TieredCache::advance(Rise& rise) {
  for (;;) {
    if (rise.crossing) {
      Crossing& crossing = *rise.crossing;
      if (!crossing.task.has_ended && rise.wanted.is_cancelled())
        crossing.tier.tier->cancel(crossing.task);
      if (!is_over(crossing)) return std::nullopt;
      Result<BlockRef> here = arrive(rise);
      if (here.ok()) return Promoted{*std::move(here), {}};
      rise.why = here.status();
      rise.crossing.reset();
    }
    if (BlockRef here = pool_->find(rise.wanted.block.hash)) return Promoted{std::move(here), {}};
    if (rise.wanted.is_cancelled())
      return Promoted{{}, error(Code::cancelled, "nobody wants the block any more")};
    if (Status begun = begin_next(rise); !begun.ok()) return Promoted{{}, std::move(begun)};
    if (!rise.crossing) return std::nullopt;
  }
}

/// At the next tier that has it; nothing where that has no place now. Errors: why there is no
/// block.
Status TieredCache::begin_next(Rise& rise) {
  const BlockHash hash = rise.wanted.block.hash;
  while (rise.next < below_.size() && lacks(*below_[rise.next], hash)) ++rise.next;
  if (rise.next == below_.size()) {
    if (!rise.why.ok()) return rise.why;
    count(&TieredCacheFigures::not_found);
    return error(Code::not_found, cat("no tier has block ", hex(hash)), "make it anew");
  }
  Below& from = *below_[rise.next];
  if (!from.has_place_for(TierTask::Kind::get)) return {};
  if (!rise.slot) {
    TOWPATH_TRY(auto slots, pool_->allocate(1));
    rise.slot = std::move(slots.front());
  }
  ++rise.next;
  auto place = in_one_piece(layout_, rise.slot->slot());
  const bool is_slot = place.has_value();
  if (!is_slot) {
    if (rise.aside.empty()) rise.aside = take_spare();
    place = rise.aside;
  }
  rise.crossing.emplace(from, TierTask{.kind = TierTask::Kind::get, .hash = hash, .bytes = *place});
  if (is_slot) rise.crossing->task.slot = rise.slot->slot();
  begin(*rise.crossing);
  return {};
}

Result<BlockRef> TieredCache::arrive(Rise& rise) {
  const Crossing& crossing = *rise.crossing;
  if (const Status& came = crossing.task.status; !came.ok()) {
    failed(crossing.tier, "get", came);
    if (came.code() == Code::corrupt)
      count_quarantined(cat(crossing.tier.tier->name(), ", coming up"));
    return came;
  }
  if (!rise.aside.empty()) TOWPATH_TRY(scatter(rise.aside, layout_, rise.slot->slot()));
  {
    const MutexLock figures(figures_mutex_);
    ++figures_.below[crossing.tier.number].promoted;
    figures_.below[crossing.tier.number].promoted_bytes += block_bytes_;
  }
  CompleteBlock whole(*std::exchange(rise.slot, std::nullopt),
                      {rise.wanted.block, crossing.task.digest});
  TOWPATH_TRY(BlockRef here, pool_->register_block(std::move(whole)));
  if (!crossing.tier.tier->takes_blocks()) offer(here, {});  // others may lose it
  return here;
}

// Down -------------------------------------------------------------------------------------------

bool TieredCache::is_time_to_demote() const {
  if (demotions_.size() >= options_.batch_at_least) return true;
  const Instant oldest = demotions_.oldest();
  return oldest != Instant::never() && clock_.now() - oldest >= options_.linger;
}

bool TieredCache::takes(const Below& tier) const {
  return tier.tier->takes_blocks() && clock_.now() >= tier.rests_until;
}

bool TieredCache::someone_takes() const {
  for (const auto& tier : below_)
    if (takes(*tier)) return true;
  return false;
}

/// In all tiers that take blocks now: a block is copied aside once, for all of them.
bool TieredCache::have_room() const {
  for (const auto& tier : below_)
    if (takes(*tier) && !tier->has_place_for(TierTask::Kind::put)) return false;
  return someone_takes();
}

bool TieredCache::is_falling(const Below& tier, BlockHash hash) const {
  const auto here = [&](const Crossing& put) { return &put.tier == &tier && !put.is_over; };
  return std::ranges::any_of(falls_, [&](const Fall& fall) {
    return fall.hash == hash && std::ranges::any_of(fall.crossings, here);
  });
}

bool TieredCache::demote_some(bool at_once) {
  end_falls();
  const std::size_t most =
      std::max<std::size_t>(options_.batch_blocks, options_.batch_bytes / block_bytes_);
  std::size_t done = 0;
  if (at_once || is_time_to_demote())
    for (; done < most && promotions_.waiting() == 0 && have_room(); ++done) {
      const auto waiting = demotions_.pop();
      if (!waiting) break;
      demote_one(*waiting);
    }
  acknowledge_all();
  return done > 0;
}

void TieredCache::demote_one(const DemotionQueue::Waiting& waiting) {
  const BlockHash hash = waiting.block.hash;
  std::vector<Below*> takers;
  for (const auto& tier : below_)
    if (takes(*tier) && lacks(*tier, hash) && !is_falling(*tier, hash))
      takers.push_back(tier.get());
  if (takers.empty()) return;
  Fall& fall = falls_.emplace_back();
  fall.hash = hash;
  if (!copy_aside(waiting.block, fall)) {
    falls_.pop_back();
    return count(&TieredCacheFigures::gone);
  }
  for (Below* const into : takers) {
    if (fall.is_wrong) break;
    Crossing& put = fall.crossings.emplace_back(
        *into,
        TierTask{
            .kind = TierTask::Kind::put, .hash = hash, .digest = fall.digest, .bytes = fall.bytes});
    begin(put);
    if (is_over(put)) land(fall, put);
  }
  if (has_landed(fall)) falls_.pop_back();
}

/// False: it is gone.
bool TieredCache::copy_aside(const WeakBlock& block, Fall& fall) {
  fall.bytes = take_spare();
  const MutexLock copying(copying_);
  bool copied = false;
  pool_->look(block, [&](const BlockIdentity& identity, SlotId slot) {
    fall.digest = identity.digest;
    copied = gather(layout_, slot, fall.bytes).ok();
  });
  return copied;
}

void TieredCache::end_falls() {
  for (auto fall = falls_.begin(); fall != falls_.end();) {
    const auto here = fall++;
    for (Crossing& put : here->crossings)
      if (!put.is_over && is_over(put)) land(*here, put);
    if (has_landed(*here)) falls_.erase(here);
  }
}

/// Everywhere; its bytes are free for another.
bool TieredCache::has_landed(Fall& fall) {
  for (const Crossing& put : fall.crossings)
    if (!put.is_over) return false;
  spare_.push_back(std::move(fall.bytes));
  return true;
}

void TieredCache::land(Fall& fall, const Crossing& crossing) {
  Below& into = crossing.tier;
  const Status& kept = crossing.task.status;
  if (kept.ok()) {
    if (fall.is_unwanted)
      (void)into.tier->remove(fall.hash);
    else
      ++into.unacknowledged;
  } else if (kept.code() == Code::corrupt) {
    if (!std::exchange(fall.is_wrong, true)) count_quarantined("host, going down");
    (void)pool_->drop(fall.hash);
  } else {
    failed(into, "put", kept);
    into.rests_until = clock_.now() + options_.rest;
  }
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
    figures_.below[tier->number].demoted_bytes += blocks * block_bytes_;
  }
}

}  // namespace towpath::kv
