#include "tools/replay/faulty_tier.h"

#include <algorithm>
#include <utility>

#include <towpath/core/format.h>

namespace towpath::tools::replay {

void FaultyTier::begin(kv::TierTask& task) {
  if (task.kind != kv::TierTask::Kind::look && chance_.strikes()) {
    chance_.made(Mistake::tier_fails);
    task.end(error(Code::io_error, cat("tier ", name(), " was asked to fail"),
                   "replay without --faults"));
    return;
  }
  const bool is_put = task.kind == kv::TierTask::Kind::put;
  // Kept anew: the torn one had gone to make room.
  if (is_put && torn_.erase(task.hash) > 0) chance_.gone(Mistake::torn_write);
  const bool tears = is_put && device_ != nullptr && tears_next();
  if (tears) device_->tear(task.bytes.data());
  under_way_.push_back({&task, tears});
  tier_->begin(task);
  look_at_ends();
}

bool FaultyTier::tears_next() {
  return tear_every_ > 0 ? puts_++ % tear_every_ == 0 : chance_.strikes();
}

void FaultyTier::cancel(kv::TierTask& task) {
  tier_->cancel(task);
  look_at_ends();
}

bool FaultyTier::progress() {
  const bool more = tier_->progress();
  look_at_ends();
  return more;
}

// Tasks may end in each of these, and are their owner's from then on.
void FaultyTier::checkpoint() {
  tier_->checkpoint();
  look_at_ends();
}

Status FaultyTier::remove(kv::BlockHash hash) {
  Status removed = tier_->remove(hash);
  look_at_ends();
  return removed;
}

void FaultyTier::look_at_ends() {
  std::erase_if(under_way_, [&](const UnderWay& one) {
    if (!one.task->has_ended) return false;
    const kv::BlockHash hash = one.task->hash;
    // The caller meets it; the tier has quarantined it.
    if (one.task->kind == kv::TierTask::Kind::get && one.task->status.code() == Code::corrupt)
      torn_.erase(hash);
    if (!one.tears || !device_->has_torn(one.task->bytes.data()) || !one.task->status.ok())
      return true;
    chance_.made(Mistake::torn_write);
    torn_.insert(hash);
    return true;
  });
}

bool FaultyTier::has_gets() const {
  return std::ranges::any_of(
      under_way_, [](const UnderWay& one) { return one.task->kind == kv::TierTask::Kind::get; });
}

std::vector<Status> FaultyTier::meet_the_torn(std::uint64_t block_bytes) {
  constexpr Duration kNap = std::chrono::milliseconds(1);
  std::vector<Status> met;
  Bytes bytes(block_bytes);
  for (const kv::BlockHash hash : std::exchange(torn_, {})) {
    kv::TierTask task{.kind = kv::TierTask::Kind::get, .hash = hash, .bytes = bytes};
    tier_->begin(task);
    while (!task.has_ended)
      if (!tier_->progress()) tier_->wait_for_work(kNap);
    if (task.status.code() == Code::not_found)
      chance_.gone(Mistake::torn_write);
    else if (!task.status.ok())
      met.push_back(task.status);
  }
  return met;
}

}  // namespace towpath::tools::replay
