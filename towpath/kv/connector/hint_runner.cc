#include <algorithm>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/kv/connector/hint_runner.h>

namespace towpath::kv {
namespace {

constexpr std::size_t kBroughtAtOnce = 32;                    // by a hint
constexpr Duration kHintLook = std::chrono::milliseconds(1);  // at what a hint waits for
constexpr Duration kAskAgain = std::chrono::milliseconds(20);
constexpr std::size_t kMostSessions = 64;  // of a block; what others hold is nobody's in particular

bool holds_blocks(HintAction action) {
  return action == HintAction::pin || action == HintAction::retain || action == HintAction::share;
}

bool brings_blocks(HintAction action) {
  return action == HintAction::prefetch || action == HintAction::pin;
}

}  // namespace

void HintRunner::take(HintOrder order) {
  if (std::string why = why_not(order); !why.empty()) return reject(order, std::move(why));
  const Duration after = std::clamp(order.after, Duration::zero(), kLongestHint);
  running_.push_back({.order = std::move(order), .next = options_.clock->now() + after});
}

/// Empty: it may begin.
std::string HintRunner::why_not(const HintOrder& order) const {
  if (order.blocks.empty()) return "it names no whole block";
  if (order.action == HintAction::share && !options_.has_peers) return "there are no peers";
  if (running_.size() >= options_.most_hints)
    return cat(running_.size(), " hints are under way already");
  return {};
}

void HintRunner::reject(const HintOrder& order, std::string why) {
  answers_.push_back({.number = order.number,
                      .outcome = HintOutcome::rejected,
                      .left = order.blocks.size(),
                      .why = std::move(why)});
}

bool HintRunner::progress() {
  if (running_.empty() && held_.empty()) return false;
  const Instant now = options_.clock->now();
  bool moved = let_go(now);
  for (auto hint = running_.begin(); hint != running_.end();) {
    const auto here = hint++;
    if (now < here->next) continue;
    here->next = now + kHintLook;
    if (!here->begun) {
      here->begun = now;
      here->left.assign(here->order.blocks.begin(), here->order.blocks.end());
    }
    if (!advance(*here, now)) continue;
    answer(*here);
    running_.erase(here);
    moved = true;
  }
  return moved;
}

bool HintRunner::let_go(Instant now) {
  if (now < next_end_) return false;
  next_end_ = Instant::never();
  for (auto& [hash, held] : held_) {
    std::erase_if(held.holds, [&](const Hold& hold) { return hold.until <= now; });
    for (const Hold& hold : held.holds) next_end_ = std::min(next_end_, hold.until);
  }
  return std::erase_if(held_, [](const auto& one) { return one.second.holds.empty(); }) > 0;
}

/// True: it has ended.
bool HintRunner::advance(Running& hint, Instant now) {
  const bool is_release = holds_blocks(hint.order.action) && hint.order.keep <= Duration::zero();
  if (is_release) {
    release(hint);
    return true;
  }
  if (hint.coming && !hint.coming->ended()) return false;
  take_arrived(hint, now);
  for (const BlockHash hash : std::exchange(hint.left, {}))
    if (!hint.is_clipped && !do_for(hint, hash, now)) hint.left.push_back(hash);
  if (!hint.is_clipped && brings_blocks(hint.order.action) && now >= hint.ask_at) bring(hint);
  if (hint.coming) return false;
  return hint.is_clipped || hint.left.empty() || !may_still_be_done(hint, now);
}

void HintRunner::release(Running& hint) {
  for (const BlockHash hash : hint.left) (void)give_back(hash, hint.order.session);
  hint.done = hint.left.size();
}

/// What the session holds of it. True: others hold it still.
bool HintRunner::give_back(BlockHash hash, std::uint64_t session) {
  const auto known = held_.find(hash);
  if (known == held_.end()) return false;
  std::erase_if(known->second.holds, [&](const Hold& hold) { return hold.session == session; });
  if (!known->second.holds.empty()) return true;
  held_.erase(known);
  return false;
}

/// What is being saved comes soon; what is being written below may take longer.
bool HintRunner::may_still_be_done(const Running& hint, Instant now) const {
  if (now < *hint.begun + options_.grace) return true;
  const auto is_here = [&](BlockHash hash) {
    return options_.block_directory->tiers_of(hash) != 0;
  };
  return hint.order.action == HintAction::demote && now < *hint.begun + options_.longest_demotion &&
         std::ranges::any_of(hint.left, is_here);
}

void HintRunner::take_arrived(Running& hint, Instant now) {
  if (!hint.coming) return;
  auto hash = hint.asked.begin();
  for (Promoted& one : hint.coming->take()) {
    const BlockHash asked = *hash++;
    hint.refused.erase(asked);
    if (one.status.ok() && hint.order.action == HintAction::prefetch) ++hint.done;
    if (one.status.ok() && hint.order.action == HintAction::pin)
      hold(hint, std::move(one.block), now);
    if (one.status.code() == Code::exhausted) take_refused(hint, asked, std::move(one.status), now);
  }
  hint.coming.reset();
}

/// There is no room for it now. It waits behind the others.
void HintRunner::take_refused(Running& hint, BlockHash hash, Status refusal, Instant now) {
  hint.refused.insert(hash);
  hint.refusal = std::move(refusal);
  if (now >= *hint.begun + options_.grace) return;
  hint.left.push_back(hash);
  hint.ask_at = now + kAskAgain;
}

/// False: not yet.
bool HintRunner::do_for(Running& hint, BlockHash hash, Instant now) {
  if (hint.order.action == HintAction::demote) return demote(hint, hash);
  BlockRef here = cache_.find(hash);
  if (!here) return false;
  hint.refused.erase(hash);
  if (hint.order.action == HintAction::prefetch)
    ++hint.done;
  else
    hold(hint, std::move(here), now);
  return true;
}

/// Beyond the share of memory the hint is clipped. What is held for longer already stays so.
void HintRunner::hold(Running& hint, BlockRef block, Instant now) {
  const BlockHash hash = block.hash();
  const Instant until = now + std::min(hint.order.keep, kLongestHint);
  if (!held_.contains(hash) && held_.size() >= options_.most_held) {
    hint.is_clipped = true;
    return;
  }
  Held& held = held_[hash];
  if (!held.block) held.block = std::move(block);
  add(held, {hint.order.session, until});
  next_end_ = std::min(next_end_, until);
  ++hint.done;
}

void HintRunner::add(Held& held, Hold hold) {
  const auto find = [&] { return std::ranges::find(held.holds, hold.session, &Hold::session); };
  auto known = find();
  if (known == held.holds.end() && held.holds.size() >= kMostSessions) {
    hold.session = 0;
    known = find();
  }
  if (known == held.holds.end())
    held.holds.push_back(hold);
  else
    known->until = std::max(known->until, hold.until);
}

/// False: it is not below yet, or in no tier. What others hold stays where it is.
bool HintRunner::demote(Running& hint, BlockHash hash) {
  constexpr unsigned kMemory = 1;
  if (give_back(hash, hint.order.session)) {
    ++hint.done;
    return true;
  }
  const unsigned good_enough = options_.below != 0 ? options_.below : kMemory;
  if ((options_.block_directory->tiers_of(hash) & good_enough) != 0) {
    (void)cache_.pool().spend(hash);
    ++hint.done;
    return true;
  }
  if (hint.offered.contains(hash)) return false;
  if (const BlockRef here = cache_.find(hash)) {
    cache_.demote(here);
    hint.offered.insert(hash);
  }
  return false;
}

/// Those that are somewhere, as far as the share of memory goes.
void HintRunner::bring(Running& hint) {
  const std::uint64_t used = hint.order.action == HintAction::pin ? held_.size() : hint.done;
  const std::uint64_t most = options_.most_held - std::min(options_.most_held, used);
  std::vector<CachedBlock> wanted;
  std::deque<BlockHash> others;
  bool are_more = false;
  for (const BlockHash hash : hint.left) {
    const bool is_there = options_.block_directory->tiers_of(hash) != 0;
    const bool is_next = is_there && wanted.size() < std::min<std::uint64_t>(most, kBroughtAtOnce);
    are_more = are_more || (is_there && !is_next);
    if (is_next)
      wanted.push_back({hash, {}});
    else
      others.push_back(hash);
  }
  if (wanted.empty()) {
    hint.is_clipped = are_more;
    return;
  }
  Result<Promotion> coming = cache_.promote(wanted, kUnhurriedPriority);
  if (!coming.ok()) {  // too much waits: at the next look
    hint.refusal = coming.status();
    for (const CachedBlock& block : wanted) hint.refused.insert(block.hash);
    return;
  }
  hint.coming = *std::move(coming);
  hint.asked.clear();
  for (const CachedBlock& block : wanted) hint.asked.push_back(block.hash);
  hint.left = std::move(others);
}

void HintRunner::answer(const Running& hint) {
  HintAnswer said{.number = hint.order.number,
                  .blocks = hint.done,
                  .left = hint.order.blocks.size() - hint.done};
  if (hint.is_clipped || !hint.refused.empty()) {
    said.outcome = hint.done > 0 ? HintOutcome::clipped : HintOutcome::rejected;
    said.why = hint.is_clipped
                   ? cat("hints hold ", held_.size(), " blocks, and at most ", options_.most_held)
                   : hint.refusal.to_string();
  } else if (hint.done == 0) {
    said.outcome = HintOutcome::rejected;
    said.why = "its blocks are not kept";
  }
  answers_.push_back(std::move(said));
}

}  // namespace towpath::kv
