// WeakTable: what is alive under a key, held by others. Dead entries go now and then, so that a
// table costs what is put into it, and not what it holds at each call.
// Invariants: at most twice as many entries as were alive at the last sweep, and kFew.
// Thread: one at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>

namespace towpath::backend {

template <typename Key, typename Value>
class WeakTable {
 public:
  static constexpr std::size_t kFew = 64;

  /// Null: nothing alive.
  std::shared_ptr<Value> find(const Key& key) const {
    const auto found = entries_.find(key);
    return found == entries_.end() ? nullptr : found->second.lock();
  }
  /// In place of what was there. Cost: O(log size), amortized.
  void put(const Key& key, const std::shared_ptr<Value>& value) {
    if (entries_.size() >= sweep_at_) sweep();
    entries_.insert_or_assign(key, value);
  }

  std::size_t size() const noexcept { return entries_.size(); }
  /// How many entries all sweeps have visited: for tests.
  std::size_t visited() const noexcept { return visited_; }

 private:
  void sweep() {
    visited_ += entries_.size();
    std::erase_if(entries_, [](const auto& entry) { return entry.second.expired(); });
    sweep_at_ = std::max(kFew, 2 * entries_.size());
  }

  std::map<Key, std::weak_ptr<Value>> entries_;
  std::size_t sweep_at_ = kFew;
  std::size_t visited_ = 0;
};

}  // namespace towpath::backend
