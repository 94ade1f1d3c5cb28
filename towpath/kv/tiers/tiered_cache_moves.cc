// What a TieredCache does with blocks that are on their way.
#include <algorithm>
#include <utility>

#include <towpath/core/text.h>
#include <towpath/kv/tiers/block_bytes.h>
#include <towpath/kv/tiers/in_flight.h>
#include <towpath/run/futex.h>

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

bool TieredCache::progress_tiers() {
  bool more = copier_->progress();
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
  while (done < options_.batch_blocks && rises_.size() < copier_->at_once()) {
    const auto next =
        promotions_.next([&](const CachedBlock& block) { return may_begin(block.hash); });
    if (!next) break;
    rises_.push_back({.wanted = *next});
    if (settle(rises_.back())) {
      rises_.pop_back();
      ++done;
    }
  }
  if (done == 0) return false;
  settled_.fetch_add(1, std::memory_order_release);
  (void)run::futex_wake(settled_, run::kWakeAll);
  return true;
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
  for (const ByteSpan aside : {rise.aside, rise.back})
    if (!aside.empty()) copier_->give_back(aside);
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
      if (!rise.copy && crossing.task.status.ok() && !rise.aside.empty()) copy_in(rise);
      if (rise.copy && !rise.copy->has_ended) return std::nullopt;
      Result<BlockRef> here = arrive(rise);
      if (here.ok()) return Promoted{*std::move(here), {}};
      rise.why = here.status();
      rise.copy.reset();
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
    if (rise.aside.empty()) rise.aside = copier_->take_aside();
    place = rise.aside;
  }
  rise.crossing.emplace(from, TierTask{.kind = TierTask::Kind::get, .hash = hash, .bytes = *place});
  if (is_slot) rise.crossing->task.slot = rise.slot->slot();
  begin(*rise.crossing);
  return {};
}

/// What a tier gave goes where it belongs, and back again, if only that can prove it.
void TieredCache::copy_in(Rise& rise) {
  if (copier_->must_read_back() && rise.back.empty()) rise.back = copier_->take_aside();
  rise.copy.emplace(SlotCopy{.slot = rise.slot->slot(), .in = rise.aside, .out = rise.back});
  rise.copy->since = clock_.now();
  copier_->begin(*rise.copy);
}

/// Errors: corrupt (what is in the slot is not what the tier gave), and those of the copy.
Status TieredCache::prove_arrival(const Rise& rise) {
  if (!rise.copy->status.ok()) {
    copy_failed("in", rise.copy->status);
    return rise.copy->status;
  }
  if (!copier_->must_read_back()) return {};
  copy_in_ns_.record(clock_.now() - rise.copy->since);
  const Digest& proven = rise.crossing->task.digest;
  const Digest found = digest_of(rise.back, proven.salt, proven.algorithm);
  if (found == proven) return {};
  count_quarantined(cat(pool_name_, ", arrived"));
  return error(Code::corrupt,
               cat("block ", hex(rise.wanted.block.hash), " arrived as ", to_string(found),
                   " in the ", pool_name_, "'s memory, where it should be ", to_string(proven)),
               "see who else writes to the pool's free slots; test the memory if nobody does");
}

Result<BlockRef> TieredCache::arrive(Rise& rise) {
  const Crossing& crossing = *rise.crossing;
  if (const Status& came = crossing.task.status; !came.ok()) {
    failed(crossing.tier, "get", came);
    if (came.code() == Code::corrupt)
      count_quarantined(cat(crossing.tier.tier->name(), ", coming up"));
    return came;
  }
  if (rise.copy) TOWPATH_TRY(prove_arrival(rise));
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

bool TieredCache::copies_rest() const { return clock_.now() < copies_rest_until_; }

bool TieredCache::someone_takes() const {
  if (copies_rest()) return false;
  for (const auto& tier : below_)
    if (takes(*tier)) return true;
  return false;
}

/// Bytes aside are bounded: two batches, so that one can be written while another is synced.
std::size_t TieredCache::most_aside() const {
  constexpr std::size_t kAtLeast = 8;
  const std::uint64_t blocks = 2 * options_.batch_bytes / block_bytes_;
  return std::min<std::size_t>(std::max<std::size_t>(blocks, kAtLeast), copier_->at_once());
}

/// In all tiers that take blocks now: a block is copied aside once, for all of them.
bool TieredCache::have_room() const {
  if (falls_.size() >= most_aside()) return false;
  for (const auto& tier : below_)
    if (takes(*tier) && !tier->has_place_for(TierTask::Kind::put)) return false;
  return someone_takes();
}

bool TieredCache::is_falling(const Below& tier, BlockHash hash) const {
  const auto here = [&](const Crossing& put) { return &put.tier == &tier && !put.is_over; };
  return std::ranges::any_of(falls_, [&](const Fall& fall) {
    return fall.block.hash == hash && (std::ranges::count(fall.takers, &tier) > 0 ||
                                       std::ranges::any_of(fall.crossings, here));
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
  // What was begun may have waited for company.
  for (const auto& tier : below_)
    if (tier->puts_under_way > 0) (void)tier->tier->progress();
  end_falls();
  return done > 0;
}

void TieredCache::demote_one(const DemotionQueue::Waiting& waiting) {
  const BlockHash hash = waiting.block.hash;
  Fall fall{.block = waiting.block};
  for (const auto& tier : below_)
    if (takes(*tier) && lacks(*tier, hash) && !is_falling(*tier, hash))
      fall.takers.push_back(tier.get());
  if (fall.takers.empty()) return;
  falls_.push_back(std::move(fall));
  copy_aside(falls_.back());
  if (advance(falls_.back())) falls_.pop_back();
}

void TieredCache::copy_aside(Fall& fall) {
  fall.copy.out = copier_->take_aside();
  fall.copy.since = clock_.now();
  SlotCopier& copier = *copier_;
  const MutexLock copying(copying_);
  const bool is_there = pool_->look(fall.block, [&](const BlockIdentity& identity, SlotId slot) {
    fall.digest = identity.digest;
    fall.copy.slot = slot;
    copier.begin(fall.copy);
    fall.was_held = fall.copy.has_ended;
  });
  if (!is_there) fall.copy.end({});  // of nothing
}

void TieredCache::end_falls() {
  for (auto fall = falls_.begin(); fall != falls_.end();) {
    const auto here = fall++;
    if (advance(*here)) falls_.erase(here);
  }
}

/// As far as it goes now. True: all tiers that take it have it, and its bytes are free for another.
bool TieredCache::advance(Fall& fall) {
  if (!fall.copy.has_ended) return false;
  if (!std::exchange(fall.is_aside, true) && !came_aside(fall)) fall.takers.clear();
  for (Crossing& put : fall.crossings)
    if (!put.is_over && is_over(put)) land(fall, put);
  begin_puts(fall);
  const auto is_over_already = [](const Crossing& put) { return put.is_over; };
  if (!fall.takers.empty() || !std::ranges::all_of(fall.crossings, is_over_already)) return false;
  copier_->give_back(fall.copy.out);
  return true;
}

/// What was copied is the block, if nobody can have written to its slot meanwhile: it was held, or
/// lies there still. Who would write there must have evicted it first.
bool TieredCache::came_aside(const Fall& fall) {
  if (const Status& copied = fall.copy.status; !copied.ok()) {
    copy_failed("out", copied);
    copies_rest_until_ = clock_.now() + options_.rest;
    return false;
  }
  if (fall.was_held) return true;
  if (!pool_->look(fall.block, [](const BlockIdentity&, SlotId) {})) {
    count(&TieredCacheFigures::gone);
    return false;
  }
  copy_out_ns_.record(clock_.now() - fall.copy.since);
  return true;
}

/// To the tiers that have a place.
void TieredCache::begin_puts(Fall& fall) {
  for (Below* const into : std::exchange(fall.takers, {})) {
    if (fall.is_wrong || fall.is_unwanted) continue;
    if (!into->has_place_for(TierTask::Kind::put)) {
      fall.takers.push_back(into);
      continue;
    }
    Crossing& put = fall.crossings.emplace_back(*into, TierTask{.kind = TierTask::Kind::put,
                                                                .hash = fall.block.hash,
                                                                .digest = fall.digest,
                                                                .bytes = fall.copy.out});
    begin(put);
    if (is_over(put)) land(fall, put);
  }
}

void TieredCache::land(Fall& fall, const Crossing& crossing) {
  Below& into = crossing.tier;
  const Status& kept = crossing.task.status;
  if (kept.ok()) {
    if (fall.is_unwanted) return (void)into.tier->remove(fall.block.hash);
    const MutexLock figures(figures_mutex_);
    ++figures_.below[into.number].demoted;
    figures_.below[into.number].demoted_bytes += block_bytes_;
  } else if (kept.code() == Code::corrupt) {
    if (!std::exchange(fall.is_wrong, true)) count_quarantined(cat(pool_name_, ", going down"));
    (void)pool_->drop(fall.block.hash);
  } else {
    failed(into, "put", kept);
    into.rests_until = clock_.now() + options_.rest;
  }
}

}  // namespace towpath::kv
