#include <array>

#include <towpath/shmem/lock.h>
#include <towpath/shmem/queue_lock.h>

namespace towpath::shmem {
namespace {

/// The lock's words in the heaps.
class HeapNodes {
 public:
  HeapNodes(World& world, std::uint64_t offset) noexcept : world_(world), offset_(offset) {}

  std::atomic<std::uint32_t>& tail() const noexcept { return word(0, 0); }
  std::atomic<std::uint32_t>& node(std::uint32_t pe) const noexcept { return word(pe, 1); }
  void nudge(std::uint32_t pe) const noexcept { world_.nudge(pe); }

  void nudge_all() const noexcept {
    for (std::uint32_t pe = 0; pe < world_.pes(); ++pe) world_.nudge(pe);
  }
  Status broken() const {
    return error(Code::peer_lost, "a PE ended while it held the lock, or waited for it",
                 "Context::losses() names those that ended; use a new lock");
  }

  template <typename Ready>
  Status wait(const Ready& ready, std::uint32_t pe) {
    if (pe == kAnyPe) return world_.wait_for_write(CallKind::lock, ready);
    const World::Doing doing(world_, CallKind::lock, 0);
    const std::array<std::int32_t, 1> awaited = {static_cast<std::int32_t>(pe)};
    return world_.wait(world_.job().pe(world_.my_pe()).bell, ready, awaited);
  }

 private:
  std::atomic<std::uint32_t>& word(std::uint32_t pe, std::uint32_t half) const noexcept {
    std::byte* const at = world_.heap_base() + offset_ + world_.shift(pe);
    return reinterpret_cast<std::atomic<std::uint32_t>*>(at)[half];
  }

  World& world_;
  const std::uint64_t offset_;
};

}  // namespace

Status acquire_lock(World& world, std::uint64_t offset) {
  HeapNodes nodes(world, offset);
  return QueueLock(nodes, world.my_pe()).acquire();
}

bool try_acquire_lock(World& world, std::uint64_t offset) {
  HeapNodes nodes(world, offset);
  return QueueLock(nodes, world.my_pe()).try_acquire();
}

Status release_lock(World& world, std::uint64_t offset) {
  HeapNodes nodes(world, offset);
  return QueueLock(nodes, world.my_pe()).release();
}

Status Lock::acquire() {
  if (word_.ptr(0) == nullptr) return word_.refusal({}, 1);
  return acquire_lock(*word_.block()->world(), word_.offset());
}

Result<bool> Lock::try_acquire() {
  if (word_.ptr(0) == nullptr) return word_.refusal({}, 1);
  return try_acquire_lock(*word_.block()->world(), word_.offset());
}

Status Lock::release() {
  if (word_.ptr(0) == nullptr) return word_.refusal({}, 1);
  return release_lock(*word_.block()->world(), word_.offset());
}

}  // namespace towpath::shmem
