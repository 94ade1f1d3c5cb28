#include <iterator>

#include <towpath/kv/tiers/demotion_queue.h>

namespace towpath::kv {

using run::MutexLock;

DemotionQueue::Offered DemotionQueue::offer(const Waiting& block, std::optional<Waiting>* gone) {
  const MutexLock lock(mutex_);
  if (const auto known = by_hash_.find(block.block.hash); known != by_hash_.end()) {
    waiting_.at(known->second).block = block.block;  // it may have gone and come back elsewhere
    return Offered::known;
  }
  const bool full = waiting_.size() >= room_;
  if (full) {
    const auto last = room_ == 0 ? waiting_.end() : std::prev(waiting_.end());
    const bool refused = last == waiting_.end() || last->first.priority >= block.how.priority;
    if (gone != nullptr) *gone = refused ? block : last->second;
    if (refused) return Offered::refused;
    erase(last);
  }
  const Place place{block.how.priority, next_++};
  waiting_.emplace(place, block);
  by_hash_.emplace(block.block.hash, place);
  arrivals_.emplace(place.number, block.since);
  return full ? Offered::in_place : Offered::taken;
}

void DemotionQueue::erase(std::map<Place, Waiting>::iterator at) {
  by_hash_.erase(at->second.block.hash);
  arrivals_.erase(at->first.number);
  waiting_.erase(at);
}

std::optional<DemotionQueue::Waiting> DemotionQueue::pop() {
  const MutexLock lock(mutex_);
  if (waiting_.empty()) return std::nullopt;
  const Waiting first = waiting_.begin()->second;
  erase(waiting_.begin());
  return first;
}

std::size_t DemotionQueue::cancel(std::uint64_t owner) {
  const MutexLock lock(mutex_);
  const std::size_t before = waiting_.size();
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const auto here = at++;
    if (here->second.how.owner == owner) erase(here);
  }
  return before - waiting_.size();
}

std::size_t DemotionQueue::size() const {
  const MutexLock lock(mutex_);
  return waiting_.size();
}

Instant DemotionQueue::oldest() const {
  const MutexLock lock(mutex_);
  return arrivals_.empty() ? Instant::never() : arrivals_.begin()->second;
}

}  // namespace towpath::kv
