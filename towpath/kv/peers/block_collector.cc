#include <algorithm>
#include <ranges>
#include <utility>

#include <towpath/kv/peers/block_collector.h>

namespace towpath::kv {
namespace {

constexpr Duration kRest = std::chrono::milliseconds(10);  // until slots may be free again

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
  Wanted& its = sources_[owners_of(hash)].wanted[tenant];
  if (waiting_ >= options_.most_wanted && its.hashes.size() >= options_.most_wanted / queues()) {
    ++figures_.refused;
    return;
  }
  its.hashes.push_back(hash);
  ++waiting_;
}

BlockCollector::Wanted& BlockCollector::want_again(const CachedBlock& block) {
  Wanted& its = sources_[owners_of(block.hash)].wanted[block.tenant];
  its.hashes.push_front(block.hash);
  ++waiting_;
  return its;
}

std::string BlockCollector::owners_of(BlockHash hash) const {
  return options_.owners_of ? options_.owners_of(hash) : std::string();
}

std::size_t BlockCollector::queues() const {
  std::size_t all = 0;
  for (const auto& [owners, source] : sources_) all += source.wanted.size();
  return all;
}

/// Peers have it, and no tier of this cache's own.
bool BlockCollector::is_missing(BlockHash hash) const {
  return options_.block_directory->tiers_of(hash) == 1U << options_.peers;
}

bool BlockCollector::progress() {
  bool moved = false;
  for (Batch& batch : batches_) {
    moved = take(batch) || moved;
    if (batch.taken == batch.blocks.size()) --sources_[batch.owners].batches;
  }
  std::erase_if(batches_, [](const Batch& batch) { return batch.taken == batch.blocks.size(); });
  while (start_any()) moved = true;
  return moved;
}

/// What came is let go of at once: it is in the pool, and on its way to the tiers below.
bool BlockCollector::take(Batch& batch) {
  const std::vector<Promoted> came = batch.coming.take();
  for (const Promoted& one : came) {
    const CachedBlock& block = batch.blocks[batch.taken++];
    if (one.status.ok()) {
      ++figures_.collected;
    } else if (one.status.code() == Code::exhausted && is_missing(block.hash)) {
      want_again(block).rests_until = options_.clock->now() + kRest;
    } else {
      ++figures_.missed;
    }
  }
  return !came.empty();
}

/// Of the sources one after the other. False: nothing can begin now.
bool BlockCollector::start_any() {
  const Instant now = options_.clock->now();
  const std::size_t all = sources_.size();
  for (std::size_t tried = 0; tried < all && waiting_ > 0; ++tried) {
    if (now < rests_until_) return false;
    auto next = sources_.upper_bound(last_);
    if (next == sources_.end()) next = sources_.begin();
    last_ = next->first;
    Source& source = next->second;
    if (source.batches < kBatches && start_batch(last_, source)) return true;
    if (source.wanted.empty() && source.batches == 0) sources_.erase(next);
  }
  return false;
}

/// A block of each tenant in turn, the oldest first; none of those that rest. What others would be
/// asked for by now waits with theirs.
std::vector<CachedBlock> BlockCollector::next_wanted(const std::string& owners, Source& source) {
  std::vector<CachedBlock> blocks;
  const Instant now = options_.clock->now();
  std::size_t passed = 0;  // tenants in a row that had nothing
  while (blocks.size() < options_.batch_blocks && passed < source.wanted.size()) {
    auto next = source.wanted.upper_bound(source.last);
    if (next == source.wanted.end()) next = source.wanted.begin();
    source.last = next->first;
    Wanted& its = next->second;
    ++passed;
    if (now < its.rests_until) continue;
    if (!its.hashes.empty()) {
      const BlockHash hash = its.hashes.front();
      its.hashes.pop_front();
      --waiting_;
      passed = 0;
      if (is_missing(hash)) {
        if (owners_of(hash) == owners)
          blocks.push_back({hash, {}, source.last});
        else
          want(hash, source.last);
      }
    }
    if (its.hashes.empty()) source.wanted.erase(next);
  }
  return blocks;
}

/// False: nothing can begin now.
bool BlockCollector::start_batch(const std::string& owners, Source& source) {
  std::vector<CachedBlock> blocks = next_wanted(owners, source);
  if (blocks.empty()) return false;
  Result<Promotion> coming = cache_.promote(blocks, kUnhurriedPriority);
  if (coming.ok()) {
    ++source.batches;
    batches_.push_back({owners, std::move(blocks), *std::move(coming)});
    return true;
  }
  for (const CachedBlock& block : std::views::reverse(blocks)) (void)want_again(block);
  rests_until_ = options_.clock->now() + kRest;
  return false;
}

}  // namespace towpath::kv
