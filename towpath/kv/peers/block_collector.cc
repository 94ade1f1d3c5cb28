#include <algorithm>
#include <ranges>
#include <utility>

#include <towpath/kv/peers/block_collector.h>

namespace towpath::kv {
namespace {

constexpr Duration kRest = std::chrono::milliseconds(10);   // until slots may be free again
constexpr Duration kStall = std::chrono::milliseconds(50);  // of a batch without a block

}  // namespace

void BlockCollector::note(const BlockDirectory::Events& news) {
  const auto note_all = [&](const std::vector<BlockEvent>& events) {
    for (const BlockEvent& event : events)
      if (event.tier == options_.peers && event.kind == BlockEvent::Kind::stored)
        want(event.hash, event.tenant);
  };
  note_all(news.some_were_lost ? options_.block_directory->snapshot() : news.events);
}

void BlockCollector::want(BlockHash hash, TenantId tenant) {
  if (!is_missing(hash)) return;
  Wanted& its = wanted_[tenant];
  if (waiting_ >= options_.most_wanted &&
      its.hashes.size() >= options_.most_wanted / wanted_.size()) {
    ++figures_.refused;
    return;
  }
  its.hashes.push_back(hash);
  ++waiting_;
}

void BlockCollector::want_again(const CachedBlock& block) {
  wanted_[block.tenant].hashes.push_front(block.hash);
  ++waiting_;
}

/// Peers have it, and no tier of this cache's own.
bool BlockCollector::is_missing(BlockHash hash) const {
  return options_.block_directory->tiers_of(hash) == 1U << options_.peers;
}

bool BlockCollector::progress() {
  bool moved = false;
  for (Batch& batch : batches_) moved = take(batch) || moved;
  std::erase_if(batches_, [](const Batch& batch) { return batch.taken == batch.blocks.size(); });
  while (may_start_batch() && start_batch()) moved = true;
  return moved;
}

/// A batch ends with its last block: a peer that is stopped, and has one in each, would keep all
/// others waiting until its session fails.
bool BlockCollector::may_start_batch() const {
  const Instant now = options_.clock->now();
  if (waiting_ == 0 || now < rests_until_) return false;
  if (batches_.size() < kBatches) return true;
  const auto has_stalled = [&](const Batch& batch) { return now - batch.moved_at >= kStall; };
  return batches_.size() < kMostBatches && std::ranges::all_of(batches_, has_stalled);
}

/// What came is let go of at once: it is in the pool, and on its way to the tiers below.
bool BlockCollector::take(Batch& batch) {
  const std::vector<Promoted> came = batch.coming.take();
  for (const Promoted& one : came) {
    const CachedBlock& block = batch.blocks[batch.taken++];
    if (one.status.ok()) {
      ++figures_.collected;
    } else if (one.status.code() == Code::exhausted && is_missing(block.hash)) {
      want_again(block);
      wanted_[block.tenant].rests_until = options_.clock->now() + kRest;
    } else {
      ++figures_.missed;
    }
  }
  if (came.empty()) return false;
  batch.moved_at = options_.clock->now();
  return true;
}

/// A block of each tenant in turn, the oldest first; none of those that rest.
std::vector<CachedBlock> BlockCollector::next_wanted() {
  std::vector<CachedBlock> blocks;
  const Instant now = options_.clock->now();
  std::size_t passed = 0;  // tenants in a row that had nothing
  while (blocks.size() < options_.batch_blocks && waiting_ > 0 && passed < wanted_.size()) {
    auto next = wanted_.upper_bound(last_);
    if (next == wanted_.end()) next = wanted_.begin();
    last_ = next->first;
    Wanted& its = next->second;
    ++passed;
    if (now < its.rests_until) continue;
    if (!its.hashes.empty()) {
      const BlockHash hash = its.hashes.front();
      its.hashes.pop_front();
      --waiting_;
      passed = 0;
      if (is_missing(hash)) blocks.push_back({hash, {}, last_});
    }
    if (its.hashes.empty()) wanted_.erase(next);
  }
  return blocks;
}

/// False: nothing can begin now.
bool BlockCollector::start_batch() {
  std::vector<CachedBlock> blocks = next_wanted();
  if (blocks.empty()) return false;
  Result<Promotion> coming = cache_.promote(blocks, kUnhurriedPriority);
  if (coming.ok()) {
    batches_.push_back({std::move(blocks), *std::move(coming), options_.clock->now()});
    return true;
  }
  for (const CachedBlock& block : std::views::reverse(blocks)) want_again(block);
  rests_until_ = options_.clock->now() + kRest;
  return false;
}

}  // namespace towpath::kv
