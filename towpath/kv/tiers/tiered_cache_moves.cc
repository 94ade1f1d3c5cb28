// What a TieredCache does with blocks that are on their way.
#include <algorithm>
#include <utility>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/kv/tiers/block_bytes.h>
#include <towpath/kv/tiers/in_flight.h>
#include <towpath/run/futex.h>

namespace towpath::kv {

using run::MutexLock;

// Tasks ------------------------------------------------------------------------------------------

void TieredCache::Core::begin(TierRequest& request) {
  request.since = clock_.now();
  ++request.tier.under_way;
  if (request.task.kind == TierTask::Kind::put) ++request.tier.puts_under_way;
  if (request.task.kind == TierTask::Kind::get) request.tier.reading.begins(1, request.since);
  request.tier.tier->begin(request.task);
  has_begun_ = true;
}

/// It may have waited for company. True: there was some, so that there may be more to do.
bool TieredCache::Core::start_begun() {
  if (!std::exchange(has_begun_, false)) return false;
  for (const auto& tier : below_)
    if (tier->under_way > 0) (void)tier->tier->progress();
  return true;
}

/// Gives its place back, the first time that it is.
bool TieredCache::Core::is_over(TierRequest& request) {
  if (request.is_over || !request.task.has_ended) return request.is_over;
  request.is_over = true;
  TierState& tier = request.tier;
  --tier.under_way;
  if (request.task.kind == TierTask::Kind::put) --tier.puts_under_way;
  const Instant now = clock_.now();
  const Duration took = now - request.since;
  if (request.task.kind == TierTask::Kind::get)
    tier.reading.ends(1, request.task.status.ok() ? 1 : 0, now);
  if (request.task.kind == TierTask::Kind::put) tier.put_ns.record(took);
  if (request.task.kind == TierTask::Kind::get) tier.get_ns.record(took);
  return true;
}

bool TieredCache::Core::progress_tiers() {
  bool more = copier_->progress();
  for (const auto& tier : below_) more = tier->tier->progress() || more;
  return more;
}

void TieredCache::Core::cancel_all() {
  constexpr Duration kNap = std::chrono::milliseconds(10);
  std::vector<TierRequest*> all;
  for (TierRequest& look : looks_under_way_) all.push_back(&look);
  for (PromotionInFlight& promotion : promoting_)
    if (promotion.request) all.push_back(&*promotion.request);
  for (DemotionInFlight& demotion : demoting_)
    for (TierRequest& put : demotion.requests) all.push_back(&put);
  for (TierRequest* request : all)
    if (!request->task.has_ended) request->tier.tier->cancel(request->task);
  while (!all.empty()) {
    (void)progress_tiers();
    if (std::erase_if(all, [](const TierRequest* one) { return one->task.has_ended; }) == 0)
      all.front()->tier.tier->wait_for_work(kNap);
  }
}

// Looking ----------------------------------------------------------------------------------------

std::optional<TieredCache::Core::Look> TieredCache::Core::next_look() {
  const MutexLock looks(looks_mutex_);
  if (looks_.empty() || !looks_.front().tier->has_place_for(TierTask::Kind::look))
    return std::nullopt;
  const Look next = looks_.front();
  looks_.pop_front();
  return next;
}

bool TieredCache::Core::look_some() {
  std::size_t done = 0;
  for (; done < options_.batch_blocks && !may_promote(); ++done) {
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

bool TieredCache::Core::promote_some() {
  std::size_t done = 0;
  for (auto promotion = promoting_.begin(); promotion != promoting_.end();) {
    const auto here = promotion++;
    if (settle(*here)) {
      promoting_.erase(here);
      ++done;
    }
  }
  while (done < options_.batch_blocks && promoting_.size() < copier_->at_once()) {
    const auto next = promotions_.next(
        [&](const CachedBlock& block) TOWPATH_REQUIRES(work_) { return may_begin(block.hash); });
    if (!next) break;
    promoting_.push_back({.wanted = *next});
    if (settle(promoting_.back())) {
      promoting_.pop_back();
      ++done;
    }
  }
  if (done == 0) return false;
  settled_.fetch_add(1, std::memory_order_release);
  (void)run::futex_wake(settled_, run::kWakeAll);
  return true;
}

/// The first tier that has it has a place, or none has it, and that is soon known; and it is not on
/// its way for another, which brings it for this one too.
bool TieredCache::Core::may_begin(BlockHash hash) const {
  const auto has_it = [&](const auto& tier) { return !lacks(*tier, hash); };
  const auto first = std::ranges::find_if(below_, has_it);
  if (first != below_.end() && !(*first)->has_place_for(TierTask::Kind::get)) return false;
  return std::ranges::none_of(promoting_, [&](const PromotionInFlight& promotion) {
    return promotion.wanted.block.hash == hash;
  });
}

/// What others give way to: not to blocks that wait for a place in a tier, which may be long in
/// coming, and in flush() does not come.
bool TieredCache::Core::may_promote() {
  return promoting_.size() < copier_->at_once() &&
         promotions_.has_next([&](const CachedBlock& block)
                                  TOWPATH_REQUIRES(work_) { return may_begin(block.hash); });
}

/// False: not yet.
bool TieredCache::Core::settle(PromotionInFlight& promotion) {
  std::optional<Promoted> came = advance(promotion);
  if (!came) return false;
  for (const ByteSpan aside : {promotion.aside, promotion.back})
    if (!aside.empty()) copier_->give_back(aside);
  promotions_.settle(promotion.wanted, *std::move(came));
  return true;
}

/// As far as it goes now.
std::optional<Promoted> TieredCache::Core::advance(PromotionInFlight& promotion) {
  for (;;) {
    if (promotion.request) {
      TierRequest& request = *promotion.request;
      if (!request.task.has_ended && promotion.wanted.is_cancelled())
        request.tier.tier->cancel(request.task);
      if (!is_over(request)) return std::nullopt;
      if (!promotion.copy && request.task.status.ok() && !promotion.aside.empty())
        copy_in(promotion);
      if (promotion.copy && !promotion.copy->has_ended) return std::nullopt;
      Result<BlockRef> here = arrive(promotion);
      if (here.ok()) return Promoted{*std::move(here), {}};
      promotion.why = here.status();
      promotion.copy.reset();
      promotion.request.reset();
    }
    if (BlockRef here = pool_->find(promotion.wanted.block.hash))
      return Promoted{std::move(here), {}};
    if (promotion.wanted.is_cancelled())
      return Promoted{{}, error(Code::cancelled, "nobody wants the block any more")};
    if (Status begun = begin_next(promotion); !begun.ok()) return Promoted{{}, std::move(begun)};
    if (!promotion.request) return std::nullopt;
  }
}

/// At the next tier that has it; nothing where that has no place now. Errors: why there is no
/// block.
Status TieredCache::Core::begin_next(PromotionInFlight& promotion) {
  const BlockHash hash = promotion.wanted.block.hash;
  while (promotion.next < below_.size() && lacks(*below_[promotion.next], hash)) ++promotion.next;
  if (promotion.next == below_.size()) {
    if (!promotion.why.ok()) return promotion.why;
    count(&TieredCacheFigures::not_found);
    return error(Code::not_found, cat("no tier has block ", hex(hash)), "make it anew");
  }
  TierState& from = *below_[promotion.next];
  if (!from.has_place_for(TierTask::Kind::get)) return {};
  if (!promotion.slot) {
    CachedBlock& block = promotion.wanted.block;
    block.tenant = block_directory_.tenant_of(hash);
    TOWPATH_TRY(auto slots, pool_->allocate(1, nullptr, block.tenant));
    promotion.slot = std::move(slots.front());
  }
  ++promotion.next;
  auto place = in_one_piece(layout_, promotion.slot->slot());
  const bool is_slot = place.has_value();
  if (!is_slot) {
    if (promotion.aside.empty()) promotion.aside = copier_->take_aside();
    place = promotion.aside;
  }
  promotion.request.emplace(from,
                            TierTask{.kind = TierTask::Kind::get, .hash = hash, .bytes = *place});
  if (is_slot) promotion.request->task.slot = promotion.slot->slot();
  promotion.request->task.parent = promotion.wanted.block.parent;
  begin(*promotion.request);
  return {};
}

/// What a tier gave goes where it belongs, and back again, if only that can prove it.
void TieredCache::Core::copy_in(PromotionInFlight& promotion) {
  if (copier_->must_read_back() && promotion.back.empty()) promotion.back = copier_->take_aside();
  promotion.copy.emplace(SlotCopy{.slot = promotion.slot->slot(),
                                  .in = promotion.aside,
                                  .out = promotion.back,
                                  .digest = promotion.request->task.digest});
  promotion.copy->since = clock_.now();
  copier_->begin(*promotion.copy);
}

/// Errors: corrupt (what is in the slot is not what the tier gave), and those of the copy.
Status TieredCache::Core::prove_arrival(const PromotionInFlight& promotion) {
  if (!promotion.copy->status.ok()) {
    copy_failed("in", promotion.copy->status);
    return promotion.copy->status;
  }
  const Digest& proven = promotion.request->task.digest;
  if (copier_->must_read_back()) copy_in_ns_.record(clock_.now() - promotion.copy->since);
  const Digest found = promotion.copy->found
                           ? *promotion.copy->found
                           : digest_of(promotion.back, proven.salt, proven.algorithm);
  if (found == proven) return {};
  count_quarantined(cat(pool_name_, ", arrived"));
  return error(Code::corrupt,
               cat("block ", hex(promotion.wanted.block.hash), " arrived as ", to_string(found),
                   " in the ", pool_name_, "'s memory, where it should be ", to_string(proven)),
               "see who else writes to the pool's free slots; test the memory if nobody does");
}

Result<BlockRef> TieredCache::Core::arrive(PromotionInFlight& promotion) {
  const TierRequest& request = *promotion.request;
  if (std::exchange(promotion.is_unwanted, false))
    return error(Code::not_found, cat("block ", hex(promotion.wanted.block.hash),
                                      " was dropped while it was promoted"));
  if (const Status& came = request.task.status; !came.ok()) {
    const bool was_given_up = came.code() == Code::cancelled && promotion.wanted.is_cancelled();
    if (!was_given_up) failed(request.tier, "get", came);  // else counted as cancelled
    if (came.code() == Code::corrupt)
      count_quarantined(cat(request.tier.tier->name(), ", coming up"));
    return came;
  }
  if (promotion.copy) TOWPATH_TRY(prove_arrival(promotion));
  {
    const MutexLock figures(figures_mutex_);
    ++figures_.below[request.tier.number].promoted;
    figures_.below[request.tier.number].promoted_bytes += block_bytes_;
  }
  promotion.wanted.block.parent = request.task.parent;
  CompleteBlock whole(*std::exchange(promotion.slot, std::nullopt),
                      {promotion.wanted.block, request.task.digest});
  TOWPATH_TRY(BlockRef here, pool_->register_block(std::move(whole)));
  if (!request.tier.tier->takes_blocks())
    offer(here, {});  // others may lose it
  else if (request.tier.tier->is_leaving(here.hash()))
    enqueue(here, {});
  return here;
}

// Down -------------------------------------------------------------------------------------------

bool TieredCache::Core::is_time_to_demote() const {
  if (demotions_.size() >= options_.batch_at_least) return true;
  const Instant oldest = demotions_.oldest();
  return oldest != Instant::never() && clock_.now() - oldest >= options_.linger;
}

bool TieredCache::Core::rests(const TierState& tier) const {
  return clock_.now() < tier.rests_until;
}

/// One that does not answer is waited for once, and then holds up no other: a single block asks
/// whether it answers again.
bool TieredCache::Core::takes(const TierState& tier) const {
  const bool is_asked = tier.is_doubtful && tier.puts_under_way > 0;
  return tier.tier->takes_blocks() && !rests(tier) && !is_asked;
}

bool TieredCache::Core::wants(const TierState& tier, BlockHash hash) const {
  return lacks(tier, hash) || tier.tier->is_leaving(hash);
}

bool TieredCache::Core::copies_rest() const { return clock_.now() < copies_rest_until_; }

bool TieredCache::Core::someone_takes() const {
  if (copies_rest()) return false;
  for (const auto& tier : below_)
    if (takes(*tier)) return true;
  return false;
}

/// Bytes aside are bounded: two batches, so that one can be written while another is synced.
std::size_t TieredCache::Core::most_aside() const {
  constexpr std::size_t kAtLeast = 8;
  std::uint64_t blocks = 2 * options_.batch_bytes / block_bytes_;
  if (options_.batch_bytes == 0)  // batches are of blocks alone
    blocks = checked_multiply(2, options_.batch_blocks).value_or(UINT64_MAX);
  return std::min<std::size_t>(std::max<std::size_t>(blocks, kAtLeast), copier_->at_once());
}

/// In all tiers that take blocks now: a block is copied aside once, for all of them.
bool TieredCache::Core::have_room() const {
  if (demoting_.size() >= most_aside()) return false;
  for (const auto& tier : below_)
    if (takes(*tier) && !tier->has_place_for(TierTask::Kind::put)) return false;
  return someone_takes();
}

bool TieredCache::Core::is_demoting(const TierState& tier, BlockHash hash) const {
  const auto here = [&](const TierRequest& put) { return &put.tier == &tier && !put.is_over; };
  return std::ranges::any_of(demoting_, [&](const DemotionInFlight& demotion) {
    return demotion.block.hash == hash && (std::ranges::count(demotion.takers, &tier) > 0 ||
                                           std::ranges::any_of(demotion.requests, here));
  });
}

bool TieredCache::Core::demote_some(bool at_once) {
  end_demotions();
  const std::size_t most =
      std::max<std::size_t>(options_.batch_blocks, options_.batch_bytes / block_bytes_);
  std::size_t done = 0;
  if (at_once || is_time_to_demote())
    for (; done < most && !may_promote() && have_room(); ++done) {
      const auto waiting = demotions_.pop();
      if (!waiting) break;
      demote_one(*waiting);
    }
  if (start_begun()) end_demotions();
  return done > 0;
}

void TieredCache::Core::demote_one(const DemotionQueue::Waiting& waiting) {
  const BlockHash hash = waiting.block.hash;
  DemotionInFlight demotion{.block = waiting.block, .how = waiting.how};
  for (const auto& tier : below_)
    if (takes(*tier) && wants(*tier, hash) && !is_demoting(*tier, hash))
      demotion.takers.push_back(tier.get());
  if (demotion.takers.empty()) return;
  demoting_.push_back(std::move(demotion));
  copy_aside(demoting_.back());
  if (advance(demoting_.back())) demoting_.pop_back();
}

void TieredCache::Core::copy_aside(DemotionInFlight& demotion) {
  demotion.copy.out = copier_->take_aside();
  demotion.copy.since = clock_.now();
  SlotCopier& copier = *copier_;
  const MutexLock copying(copying_);
  const bool is_there =
      pool_->look(demotion.block, [&](const BlockIdentity& identity, SlotId slot) {
        demotion.parent = identity.block.parent;
        demotion.copy.digest = identity.digest;
        demotion.copy.slot = slot;
        copier.begin(demotion.copy);
        demotion.was_held = demotion.copy.has_ended;
      });
  if (!is_there) demotion.copy.end({});  // of nothing
}

void TieredCache::Core::end_demotions() {
  for (auto demotion = demoting_.begin(); demotion != demoting_.end();) {
    const auto here = demotion++;
    if (advance(*here)) demoting_.erase(here);
  }
}

/// As far as it goes now. True: all tiers that take it have it, and its bytes are free for another.
bool TieredCache::Core::advance(DemotionInFlight& demotion) {
  if (!demotion.copy.has_ended) return false;
  if (!std::exchange(demotion.is_aside, true) && !came_aside(demotion)) demotion.takers.clear();
  for (TierRequest& put : demotion.requests)
    if (!put.is_over && is_over(put)) land(demotion, put);
  begin_puts(demotion);
  const auto is_over_already = [](const TierRequest& put) { return put.is_over; };
  if (!demotion.takers.empty() || !std::ranges::all_of(demotion.requests, is_over_already))
    return false;
  copier_->give_back(demotion.copy.out);
  return true;
}

/// What was copied is the block, if nobody can have written to its slot meanwhile: it was held, or
/// lies there still. Who would write there must have evicted it first. Whether its bytes are right,
/// the copy has seen, or the tiers will.
bool TieredCache::Core::came_aside(DemotionInFlight& demotion) {
  const SlotCopy& copy = demotion.copy;
  if (!copy.status.ok()) {
    copy_failed("out", copy.status);
    not_kept_ = copy.status;
    copies_rest_until_ = clock_.now() + options_.rest;
    give_up(demotion);
    return false;
  }
  if (copy.found && *copy.found != copy.digest) {
    refuse(demotion);
    return false;
  }
  if (demotion.was_held) return true;
  if (!is_here(demotion.block)) {
    count(&TieredCacheFigures::gone);
    return false;
  }
  copy_out_ns_.record(clock_.now() - demotion.copy.since);
  return true;
}

/// To the tiers that have a place.
void TieredCache::Core::begin_puts(DemotionInFlight& demotion) {
  for (TierState* const into : std::exchange(demotion.takers, {})) {
    if (demotion.is_wrong || demotion.is_unwanted) continue;
    if (!takes(*into) && someone_takes()) {  // its bytes aside are in the others' way
      count(&TieredCacheFigures::given_up);
      give_up(demotion);
      continue;
    }
    if (!into->has_place_for(TierTask::Kind::put)) {
      demotion.takers.push_back(into);
      continue;
    }
    TierRequest& put =
        demotion.requests.emplace_back(*into, TierTask{.kind = TierTask::Kind::put,
                                                       .hash = demotion.block.hash,
                                                       .digest = demotion.copy.digest,
                                                       .bytes = demotion.copy.out,
                                                       .is_proven = demotion.copy.found.has_value(),
                                                       .parent = demotion.parent});
    begin(put);
    if (is_over(put)) land(demotion, put);
  }
}

/// Until the next flush(), or until it is matched.
void TieredCache::Core::give_up(const DemotionInFlight& demotion) {
  note_given_up({demotion.block, demotion.how, clock_.now()});
}

/// Its bytes are not the block's: no tier takes them, and nobody finds them any more.
void TieredCache::Core::refuse(DemotionInFlight& demotion) {
  if (!std::exchange(demotion.is_wrong, true)) count_quarantined(cat(pool_name_, ", going down"));
  (void)pool_->drop(demotion.block.hash);
}

void TieredCache::Core::land(DemotionInFlight& demotion, const TierRequest& request) {
  TierState& into = request.tier;
  const Status& kept = request.task.status;
  if (kept.ok()) {
    into.is_doubtful = false;
    if (demotion.is_unwanted) return (void)into.tier->remove(demotion.block.hash);
    const MutexLock figures(figures_mutex_);
    ++figures_.below[into.number].demoted;
    figures_.below[into.number].demoted_bytes += block_bytes_;
  } else if (kept.code() == Code::corrupt) {
    refuse(demotion);
  } else {
    failed(into, "put", kept);
    give_up(demotion);
    not_kept_ = kept;
    into.is_doubtful = true;
    into.rests_until = clock_.now() + options_.rest;
  }
}

}  // namespace towpath::kv
