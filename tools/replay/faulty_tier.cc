#include "tools/replay/faulty_tier.h"

#include <utility>

#include <towpath/core/text.h>

namespace towpath::tools::replay {

void FaultyTier::begin(kv::TierTask& task) {
  if (task.kind != kv::TierTask::Kind::look && chance_.strikes()) {
    chance_.made(Mistake::tier_fails);
    task.end(error(Code::io_error, cat("tier ", name(), " was asked to fail"),
                   "replay without --faults"));
    return;
  }
  if (task.kind == kv::TierTask::Kind::put) return put(task);
  tier_->begin(task);
  // Whoever asked meets it; the tier has quarantined it.
  if (task.has_ended && task.status.code() == Code::corrupt) torn_.erase(task.hash);
}

void FaultyTier::put(kv::TierTask& task) {
  // Kept anew: the torn one had gone to make room.
  if (torn_.erase(task.hash) > 0) chance_.gone(Mistake::torn_write);
  const bool tears = files_ != nullptr && chance_.strikes();
  if (tears) files_->tear(task.bytes.data());
  tier_->begin(task);
  if (!tears || !files_->has_torn() || !task.status.ok()) return;
  chance_.made(Mistake::torn_write);
  torn_.insert(task.hash);
}

std::vector<Status> FaultyTier::meet_the_torn(std::uint64_t block_bytes) {
  std::vector<Status> met;
  Bytes bytes(block_bytes);
  for (const kv::BlockHash hash : std::exchange(torn_, {})) {
    kv::TierTask task{.kind = kv::TierTask::Kind::get, .hash = hash, .bytes = bytes};
    tier_->begin(task);
    if (task.status.code() == Code::not_found)
      chance_.gone(Mistake::torn_write);
    else if (!task.status.ok())
      met.push_back(task.status);
  }
  return met;
}

}  // namespace towpath::tools::replay
