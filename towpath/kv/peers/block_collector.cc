#include <algorithm>
#include <utility>

#include <towpath/kv/peers/block_collector.h>

namespace towpath::kv {
namespace {

constexpr Duration kRest = std::chrono::milliseconds(10);  // until slots may be free again

}  // namespace

void BlockCollector::note(const BlockDirectory::Events& news) {
  const auto note_all = [&](const std::vector<BlockEvent>& events) {
    for (const BlockEvent& event : events)
      if (event.tier == options_.peers && event.kind == BlockEvent::Kind::stored) want(event.hash);
  };
  note_all(news.some_were_lost ? options_.block_directory->snapshot() : news.events);
}

void BlockCollector::want(BlockHash hash) {
  if (!is_missing(hash)) return;
  if (wanted_.size() < options_.most_wanted)
    wanted_.push_back(hash);
  else
    ++figures_.refused;
}

/// Peers have it, and no tier of this cache's own.
bool BlockCollector::is_missing(BlockHash hash) const {
  return options_.block_directory->tiers_of(hash) == 1U << options_.peers;
}

bool BlockCollector::progress() {
  bool moved = false;
  for (Batch& batch : batches_) moved = take(batch) || moved;
  std::erase_if(batches_, [](const Batch& batch) { return batch.taken == batch.hashes.size(); });
  while (batches_.size() < kBatches && !wanted_.empty() && options_.clock->now() >= rests_until_ &&
         start_batch())
    moved = true;
  return moved;
}

/// What came is let go of at once: it is in the pool, and on its way to the tiers below.
bool BlockCollector::take(Batch& batch) {
  const std::vector<Promoted> came = batch.coming.take();
  for (const Promoted& one : came) {
    const BlockHash hash = batch.hashes[batch.taken++];
    if (one.status.ok()) {
      ++figures_.collected;
    } else if (one.status.code() == Code::exhausted && is_missing(hash)) {
      wanted_.push_front(hash);
      rests_until_ = options_.clock->now() + kRest;
    } else {
      ++figures_.missed;
    }
  }
  return !came.empty();
}

/// False: too much waits in the cache.
bool BlockCollector::start_batch() {
  std::vector<BlockHash> hashes;
  std::vector<CachedBlock> blocks;
  while (!wanted_.empty() && hashes.size() < options_.batch_blocks) {
    const BlockHash hash = wanted_.front();
    wanted_.pop_front();
    if (!is_missing(hash)) continue;
    hashes.push_back(hash);
    blocks.push_back({hash, {}});
  }
  if (hashes.empty()) return true;
  Result<Promotion> coming = cache_.promote(blocks, kUnhurriedPriority);
  if (coming.ok()) {
    batches_.push_back({std::move(hashes), *std::move(coming)});
    return true;
  }
  wanted_.insert(wanted_.begin(), hashes.begin(), hashes.end());
  rests_until_ = options_.clock->now() + kRest;
  return false;
}

}  // namespace towpath::kv
