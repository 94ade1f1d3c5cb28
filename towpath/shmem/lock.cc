#include <array>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/shmem/change.h>
#include <towpath/shmem/context.h>
#include <towpath/shmem/queue_lock.h>
#include <towpath/shmem/world_parts.h>

namespace towpath::shmem {
namespace {

/// A word of a heap, on any host. On one that is lost, every answer says that the lock is broken,
/// as the tail's would; its own node is nobody's turn to look at any more.
class HeapWord {
 public:
  HeapWord(const World& world, RemoteAddress at) noexcept : world_(world), at_(at) {}

  std::uint32_t load() const { return change(ChangeOp::fetch, 0); }
  void store(std::uint32_t value) const { (void)change(ChangeOp::swap, value); }
  std::uint32_t exchange(std::uint32_t value) const { return change(ChangeOp::swap, value); }
  std::uint32_t fetch_or(std::uint32_t bits) const { return change(ChangeOp::bit_or, bits); }
  std::uint32_t fetch_and(std::uint32_t bits) const { return change(ChangeOp::bit_and, bits); }
  bool compare_exchange_strong(std::uint32_t& expected, std::uint32_t desired) const {
    const std::uint32_t before = change(ChangeOp::compare_swap, desired, expected);
    return before == std::exchange(expected, before);
  }

 private:
  std::uint32_t change(ChangeOp op, std::uint32_t operand, std::uint32_t expected = 0) const {
    const auto before = world_.change(
        at_, {.op = op, .word_bytes = sizeof operand, .operand = operand, .expected = expected});
    return before.ok() ? static_cast<std::uint32_t>(*before) : kLockBroken;
  }

  const World& world_;
  const RemoteAddress at_;
};

/// The lock's words in the heaps.
class HeapNodes {
 public:
  HeapNodes(World& world, std::uint64_t offset) noexcept : world_(world), offset_(offset) {}

  HeapWord tail() const noexcept { return word(0, 0); }
  HeapWord node(std::uint32_t pe) const noexcept { return word(pe, 1); }
  void nudge(std::uint32_t pe) const noexcept { world_.nudge(pe); }

  std::uint32_t pes() const noexcept { return world_.pes(); }
  bool has_ended(std::uint32_t pe) const {
    const std::array<std::int32_t, 1> one = {static_cast<std::int32_t>(pe)};
    return !world_.lost_among(one, true).ok();
  }
  Status broken(std::uint32_t pe) const {
    std::string which = pe == kAnyPe ? "" : cat("PE ", pe);
    if (which.empty())
      for (const int lost : world_.losses()) which += cat(which.empty() ? "PE " : " or PE ", lost);
    return error(Code::peer_lost,
                 cat(which.empty() ? "a PE" : which, " ended, or did not answer in time, while it ",
                     "held the lock or waited for it"),
                 "use a new lock");
  }

  template <typename Ready>
  Status wait(const Ready& ready, std::uint32_t pe) {
    if (pe == kAnyPe) return world_.wait_for_write(CallKind::lock, ready);
    const World::Doing doing(world_, CallKind::lock, 0);
    const std::array<std::int32_t, 1> awaited = {static_cast<std::int32_t>(pe)};
    return world_.wait(world_.job().pe(world_.my_pe()).event_count, ready, awaited);
  }

 private:
  HeapWord word(std::uint32_t pe, std::uint32_t half) const noexcept {
    return {world_, {.pe = pe, .offset = offset_ + half * sizeof(std::uint32_t)}};
  }

  World& world_;
  const std::uint64_t offset_;
};

}  // namespace

Status acquire_lock(World& world, std::uint64_t offset) {
  TOWPATH_TRY(world.check_process());  // the place in the queue is the PE's
  HeapNodes nodes(world, offset);
  const Status acquired = QueueLock(nodes, world.my_pe()).acquire();
  thread_fence(std::memory_order_acquire);  // pairs with the transports' (change.h)
  return acquired;
}

Result<bool> try_acquire_lock(World& world, std::uint64_t offset) {
  TOWPATH_TRY(world.check_process());
  HeapNodes nodes(world, offset);
  const Result<bool> acquired = QueueLock(nodes, world.my_pe()).try_acquire();
  thread_fence(std::memory_order_acquire);  // as above
  return acquired;
}

Status release_lock(World& world, std::uint64_t offset) {
  TOWPATH_TRY(world.check_process());
  // What the holder put to any host is in place before the next one has the lock: its message to
  // that one takes another path, and may be faster.
  world.quiet_far();
  HeapNodes nodes(world, offset);
  return QueueLock(nodes, world.my_pe()).release();
}

Status Lock::acquire() {
  TOWPATH_TRY(word_.check({}, 1));
  return acquire_lock(*word_.block()->world(), word_.offset());
}

Result<bool> Lock::try_acquire() {
  TOWPATH_TRY(word_.check({}, 1));
  return try_acquire_lock(*word_.block()->world(), word_.offset());
}

Status Lock::release() {
  TOWPATH_TRY(word_.check({}, 1));
  return release_lock(*word_.block()->world(), word_.offset());
}

}  // namespace towpath::shmem
