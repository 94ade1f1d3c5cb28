// DemotionQueue: the blocks that wait to be copied to the tiers below, most urgent first, and never
// more than so many. It remembers them weakly: who waits keeps no slot from anyone. A block waits
// once, whoever offers it. Thread: any.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>

#include <towpath/core/clock.h>
#include <towpath/kv/blocks/block_pool.h>
#include <towpath/kv/tiers/tiered_cache.h>
#include <towpath/run/mutex.h>

namespace towpath::kv {

class DemotionQueue {
 public:
  explicit DemotionQueue(std::size_t room) : room_(room) {}

  struct Waiting {
    WeakBlock block;
    Demotion how;
    Instant since;
  };
  enum class Offered : std::uint8_t {
    taken,
    known,     ///< it waits already
    refused,   ///< the queue is full of what is as urgent
    in_place,  ///< taken, and the least urgent that waited was given up for it
  };
  /// `gone`: what does not wait any more, or is not to: of refused and in_place.
  Offered offer(const Waiting& block, std::optional<Waiting>* gone = nullptr);
  /// The most urgent; of those the one that waits longest.
  std::optional<Waiting> pop();
  /// All of an owner are forgotten. How many.
  std::size_t cancel(std::uint64_t owner);

  std::size_t size() const;
  /// Since when anyone waits; of an empty queue, never.
  Instant oldest() const;

 private:
  struct Place {
    std::uint8_t priority = 0;
    std::uint64_t number = 0;  // in order of arrival
    friend bool operator<(const Place& a, const Place& b) {
      return a.priority != b.priority ? a.priority > b.priority : a.number < b.number;
    }
  };
  void erase(std::map<Place, Waiting>::iterator at) TOWPATH_REQUIRES(mutex_);

  const std::size_t room_;
  mutable run::Mutex mutex_;
  std::map<Place, Waiting> waiting_ TOWPATH_GUARDED_BY(mutex_);
  std::unordered_map<BlockHash, Place> by_hash_ TOWPATH_GUARDED_BY(mutex_);
  std::map<std::uint64_t, Instant> arrivals_ TOWPATH_GUARDED_BY(mutex_);  // by number
  std::uint64_t next_ TOWPATH_GUARDED_BY(mutex_) = 0;
};

}  // namespace towpath::kv
