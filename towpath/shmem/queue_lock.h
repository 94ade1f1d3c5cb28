// QueueLock: a lock that PEs get in the order in which they ask, spread over one word of each PE.
//
// The word of PE 0 also has the tail of the queue. Who comes puts itself in there, notifies the
// one before it that it waits, and sleeps on its own word until that one hands the lock over: one
// store to one PE, however many wait (after Mellor-Crummey and Scott).
//
//   word of a PE:   tail (32 bits, PE 0's counts): last in the queue + 1, or 0; bit 31: broken, by
//                   the PE of this number + 1, or 0 where that is not known
//                   node (32 bits): bit 0: waits; above: next in the queue + 1, or 0; bit 30: is in
//                   the queue, and perhaps holds the lock; bit 31: broken
//
// Everyone watches the one before it. When that one ends, the lock is broken for good, and all that
// wait are notified; so a chain of waiters is no chain of watchers. Who waits looks at its own node
// only: the others may be on other hosts. The tail is broken before the nodes, so who sets its node
// anew and misses the mark finds the tail broken.
// It knows no memory: `Nodes` gives the words of each PE and the ways to wait.
// Invariants: zeroed words are a free lock. Thread: one of each PE at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include <towpath/core/result.h>

namespace towpath::shmem {

inline constexpr std::uint32_t kAnyPe = ~std::uint32_t{0};
/// In the tail, and in every node.
inline constexpr std::uint32_t kLockBroken = 1U << 31U;

/// Nodes must have: pes(), and words tail() and node(pe), nudge(pe), bool has_ended(pe), Status
/// broken(pe), which says that `pe` (or kAnyPe) broke it, and Status wait(ready, pe), which waits
/// for what `pe` (or kAnyPe) has to do.
template <class Nodes>
class QueueLock {
 public:
  QueueLock(Nodes& nodes, std::uint32_t my_pe) : nodes_(nodes), me_(my_pe) {}

  /// Errors: Nodes::wait()'s and broken()'s; already_exists (this PE holds it, or waits for it).
  Status acquire() {
    if (!claim())
      return error(Code::already_exists, "this PE holds the lock, or waits for it",
                   "release it first");
    // Not by an exchange: nobody takes the mark out of a broken tail, not even for a moment.
    std::uint32_t before = 0;
    while (!nodes_.tail().compare_exchange_strong(before, me_ + 1)) {
      if ((before & kLockBroken) == 0) continue;
      unclaim();
      return nodes_.broken(culprit(before));
    }
    if (before == 0) return {};
    nodes_.node(before - 1).fetch_or((me_ + 1) << 1U);
    nodes_.nudge(before - 1);
    Status mine = settle([&] { return (nodes_.node(me_).load() & kWaits) == 0; }, before - 1);
    if (!mine.ok()) unclaim();
    return mine;
  }

  /// True when the lock was free. Errors: broken()'s, also when the last in the queue has ended,
  /// whom nobody watches. A lock that is held is left alone: this PE's node may be the holder's.
  Result<bool> try_acquire() {
    std::uint32_t last = nodes_.tail().load();
    while (last != 0) {
      if ((last & kLockBroken) != 0) return nodes_.broken(culprit(last));
      if (!nodes_.has_ended(last - 1)) return false;
      // It may have released the lock before it ended; then the tail is another one.
      if (nodes_.tail().compare_exchange_strong(last, last | kLockBroken))
        return break_nodes(nodes_.broken(last - 1));
    }
    if (!claim()) return false;
    if (nodes_.tail().compare_exchange_strong(last, me_ + 1)) return true;
    unclaim();
    if ((last & kLockBroken) != 0) return nodes_.broken(culprit(last));
    return false;
  }

  /// By the holder. Errors: Nodes::wait()'s and broken()'s; not_ready (this PE does not hold it).
  Status release() {
    std::uint32_t only_me = me_ + 1;
    if (nodes_.tail().compare_exchange_strong(only_me, 0)) {
      unclaim();
      return {};
    }
    if (const std::uint32_t mine = nodes_.node(me_).load(); (mine & kIsIn) == 0) {
      // Not even of a broken lock: who was next when this PE had it may wait for another one now.
      if ((mine & kLockBroken) != 0) return nodes_.broken(culprit(nodes_.tail().load()));
      return error(Code::not_ready, "this PE does not hold the lock", "acquire it first");
    }
    // Somebody is behind, but may not have said so yet. The last one is waited for: when one
    // between ends, the one behind that breaks the lock. Who else ends is none of its business.
    const std::uint32_t last = (only_me & kLockBroken) != 0 ? kAnyPe : only_me - 1;
    const auto next_is_known = [&] { return next() != 0; };
    const Status settled = next_is_known() ? Status() : settle(next_is_known, last);
    const std::uint32_t heir = next() - 1;
    unclaim();
    if (!settled.ok()) return settled;
    nodes_.node(heir).fetch_and(~kWaits);
    nodes_.nudge(heir);
    return {};
  }

 private:
  static constexpr std::uint32_t kWaits = 1, kIsIn = 1U << 30U;

  /// Makes the node one of the queue; false where it is in there. Atomically: of two threads of a
  /// PE that ask at a time the second one does not wipe out what the first one has.
  bool claim() {
    if ((nodes_.node(me_).fetch_or(kIsIn) & kIsIn) != 0) return false;
    nodes_.node(me_).store(kWaits | kIsIn);
    return true;
  }
  /// The last that it does with its node.
  void unclaim() { nodes_.node(me_).fetch_and(~kIsIn); }
  std::uint32_t next() { return (nodes_.node(me_).load() & ~(kIsIn | kLockBroken)) >> 1U; }
  /// Waits for `ready`, or for the lock to break.
  template <typename Ready>
  Status settle(const Ready& ready, std::uint32_t pe) {
    const auto is_broken = [&] { return (nodes_.node(me_).load() & kLockBroken) != 0; };
    Status waited = nodes_.wait([&] { return ready() || is_broken(); }, pe);
    if (!waited.ok()) return break_it(waited, pe == kAnyPe ? 0 : pe + 1);
    return ready() ? Status() : nodes_.broken(culprit(nodes_.tail().load()));
  }
  static std::uint32_t culprit(std::uint32_t tail) {
    return tail > kLockBroken ? tail - kLockBroken - 1 : kAnyPe;
  }
  /// `mark`: who did, for the tail.
  Status break_it(Status why, std::uint32_t mark) {
    nodes_.tail().store(mark | kLockBroken);
    return break_nodes(std::move(why));
  }
  Status break_nodes(Status why) {
    for (std::uint32_t pe = 0; pe < nodes_.pes(); ++pe) {
      nodes_.node(pe).fetch_or(kLockBroken);
      nodes_.nudge(pe);
    }
    return why;
  }

  Nodes& nodes_;
  const std::uint32_t me_;
};

}  // namespace towpath::shmem
