// EventCount: waking those who sleep until something in shared memory becomes true.
//
// Who makes it true rings afterwards; who waits looks first, then dozes. No wake-up is lost: a
// sleeper says that it sleeps before it looks for the last time, and the ringer looks for sleepers
// after its change. That needs one full fence on either side (the orders below are seq_cst).
// `Words` are the words and how to sleep on them: SharedWords between processes, a scheduler's in
// the tests that try all interleavings.
// Invariants: zeroed memory is one. A sleeper that was killed leaves `sleepers` too high: from
// then on a ring costs a system call. Thread: any, and any process.
#pragma once

#include <atomic>
#include <cstdint>

#include <towpath/run/futex.h>

namespace towpath::shmem {

/// Words that processes share.
struct SharedWords {
  using Word32 = std::atomic<std::uint32_t>;
  using Word64 = std::atomic<std::uint64_t>;

  static void park(const Word32& word, std::uint32_t seen, run::Deadline until) noexcept {
    run::futex_wait(word, seen, {.deadline = until, .scope = run::FutexScope::shared});
  }
  static void wake_all(const Word32& word) noexcept {
    run::futex_wake(word, run::kWakeAll, run::FutexScope::shared);
  }
};

template <class Words>
class BasicEventCount {
 public:
  /// How often it was rung. Acquire: pairs with ring(), so what was done before it is seen.
  std::uint32_t rung() const { return rung_.load(std::memory_order_acquire); }

  /// Wakes sleepers for a reason of their own to look: nothing was rung.
  void wake() { Words::wake_all(rung_); }

  void ring() {
    rung_.fetch_add(1);
    if (has_sleepers()) Words::wake_all(rung_);
  }
  /// Exact after a full fence; without one, a sleeper that is just lying down may be missed.
  bool has_sleepers() const { return sleepers_.load() != 0; }
  void ring_if_needed() {
    if (has_sleepers()) ring();
  }

  /// How many sleep: what has_sleepers() looks at, for one that keeps its address.
  const typename Words::Word32& sleepers() const { return sleepers_; }

  /// Sleeps once, until a ring, `until`, or for no reason; not at all when `ready()`. Answers what
  /// `ready()` said last: loop until it is true.
  template <typename Ready>
  bool doze(Ready&& ready, run::Deadline until) {
    sleepers_.fetch_add(1);
    const std::uint32_t seen = rung_.load();
    bool is_ready = ready();
    if (!is_ready) {
      Words::park(rung_, seen, until);
      is_ready = ready();
    }
    sleepers_.fetch_sub(1);
    return is_ready;
  }

 private:
  typename Words::Word32 rung_;
  typename Words::Word32 sleepers_;
};

using EventCount = BasicEventCount<SharedWords>;

}  // namespace towpath::shmem
