// Barrier: where the members of a team meet, and learn whether all came for the same thing.
//
// Everyone arrives with a digest of the call it makes. The last one to arrive compares the sum of
// the digests with what it would be if all were alike, opens the next round, and rings. So a
// barrier costs one atomic addition each, and a difference costs nothing until there is one.
// Invariants: zeroed memory is a gathering. Nobody arrives at a round before the one before is
// over, so the last one may clear the sum. `Words`: as in event_count.h. Thread: any process, one
// thread of each at a time.
#pragma once

#include <atomic>
#include <cstdint>

#include <towpath/shmem/event_count.h>

namespace towpath::shmem {

template <class Words>
class BasicBarrier {
 public:
  static constexpr std::uint32_t kMaxMembers = 0xffff;

  /// The round that is open. Ask before arriving.
  std::uint32_t round() const { return event_count_.rung(); }
  bool is_over(std::uint32_t round) const { return event_count_.rung() != round; }

  /// Joins the open round. True for the last one, which opens the next.
  /// Acquire and release: all that members did before is seen by the last, and by its ring by all.
  bool arrive(std::uint64_t digest, std::uint32_t members) {
    const std::uint64_t mine = 1 + (digest << kCountBits);
    const std::uint64_t sum = arrivals_.fetch_add(mine, std::memory_order_acq_rel) + mine;
    if ((sum & kMaxMembers) != members) return false;
    const std::uint64_t if_alike = (digest * members) << kCountBits;
    const std::uint32_t after = round() + 1;
    if (sum - members != if_alike)
      differs_in_.store(after, std::memory_order_relaxed);
    else if (differs_in_.load(std::memory_order_relaxed) == after)  // since 2^32 rounds, or zeroed
      differs_in_.store(round(), std::memory_order_relaxed);
    arrivals_.store(0, std::memory_order_relaxed);  // seen by the ring below
    event_count_.ring();
    return true;
  }

  /// Of a round that is over: whether somebody came for something else.
  bool differed_in(std::uint32_t round) const {
    return differs_in_.load(std::memory_order_relaxed) == round + 1;
  }

  BasicEventCount<Words>& event_count() { return event_count_; }

 private:
  static constexpr unsigned kCountBits = 16;

  // One line: the last one to arrive has it when it rings.
  alignas(64) typename Words::Word64 arrivals_;  // how many, and above it the sum of the digests
  BasicEventCount<Words> event_count_;
  typename Words::Word32 differs_in_;  // the round after it; 0: none yet
};

using Barrier = BasicBarrier<SharedWords>;

}  // namespace towpath::shmem
