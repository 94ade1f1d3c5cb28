#include <utility>

#include <towpath/kv/tiers/relayed_tier.h>

namespace towpath::kv {

using run::MutexLock;

Result<std::unique_ptr<RelayedTier>> RelayedTier::make(std::unique_ptr<BlockTier> tier,
                                                       std::function<void()> wake_driver) {
  TOWPATH_TRY(auto waker, run::Waker::open());
  TOWPATH_TRY(auto poller, run::Poller::open());
  return std::unique_ptr<RelayedTier>(new RelayedTier(std::move(tier), std::move(wake_driver),
                                                      std::move(waker), std::move(poller)));
}

// The cache's thread -----------------------------------------------------------------------------

void RelayedTier::ask(Asked what) {
  {
    const MutexLock lock(mutex_);
    asked_.push_back(std::move(what));
  }
  wake_driver_();
}

void RelayedTier::begin(TierTask& task) {
  ask({Asked::What::begin,
       &task,
       {.kind = task.kind,
        .hash = task.hash,
        .digest = task.digest,
        .bytes = task.bytes,
        .is_proven = task.is_proven,
        .slot = task.slot,
        .parent = task.parent}});
}

void RelayedTier::cancel(TierTask& task) { ask({Asked::What::cancel, &task}); }

Status RelayedTier::remove(BlockHash hash) {
  ask({Asked::What::remove, nullptr, {.hash = hash}});
  return {};
}

bool RelayedTier::progress() {
  waker_->clear();  // before the look: what ends behind it wakes the next sleep
  const bool more = drives_here_ && drive();
  std::vector<Ended> ended;
  {
    const MutexLock lock(mutex_);
    ended.swap(ended_);
  }
  for (Ended& one : ended) {
    one.task->digest = one.digest;
    one.task->parent = one.parent;
    one.task->end(std::move(one.status));
  }
  return more || !ended.empty();
}

void RelayedTier::wait_for_work(Duration most) {
  if (drives_here_) return tier_->wait_for_work(most);
  (void)nothing_else_.wait_beside(*waker_, most);
}

// The driver's thread ----------------------------------------------------------------------------

bool RelayedTier::drive() {
  std::vector<Asked> asked;
  {
    const MutexLock lock(mutex_);
    asked.swap(asked_);
  }
  for (Asked& one : asked) start(one);
  const bool more = tier_->progress();
  std::vector<Ended> ended = take_ended();
  if (ended.empty()) return more || !asked.empty();
  {
    const MutexLock lock(mutex_);
    for (Ended& one : ended) ended_.push_back(std::move(one));
  }
  waker_->wake();
  return true;
}

bool RelayedTier::has_work() {
  const MutexLock lock(mutex_);
  return !asked_.empty() || !under_way_.empty();
}

void RelayedTier::start(Asked& one) {
  if (one.what == Asked::What::remove) return (void)tier_->remove(one.copy.hash);
  if (one.what == Asked::What::begin)
    return tier_->begin(under_way_.emplace(one.task, std::move(one.copy)).first->second);
  const auto known = under_way_.find(one.task);  // else it has ended already
  if (known != under_way_.end() && !known->second.has_ended) tier_->cancel(known->second);
}

std::vector<RelayedTier::Ended> RelayedTier::take_ended() {
  std::vector<Ended> ended;
  std::erase_if(under_way_, [&](auto& one) {
    auto& [task, copy] = one;
    if (!copy.has_ended) return false;
    ended.push_back({task, copy.digest, copy.parent, std::move(copy.status)});
    return true;
  });
  return ended;
}

}  // namespace towpath::kv
