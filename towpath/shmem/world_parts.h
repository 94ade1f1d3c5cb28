// What a World is made of. Its own affair, and that of what PEs do together. Thread: as World.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include <towpath/run/mutex.h>
#include <towpath/shmem/heap.h>
#include <towpath/shmem/job.h>
#include <towpath/shmem/remote.h>
#include <towpath/shmem/world.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/fork_mark.h>

namespace towpath::shmem {

/// A team as one PE knows it.
struct TeamView {
  std::uint32_t slot = 0;
  std::uint32_t serial = 0;           // of all teams that this PE ever had in the slot
  std::vector<std::int32_t> members;  // by index in the team: PE
  std::vector<std::uint32_t> doors;   // the first member on each other host
  std::int32_t my_index = -1;
  std::uint32_t rounds = 0;  // that this PE has entered
  Status broken;             // why nothing can be done with it any more
  bool alive = false;
};

struct World::Parts {
  Parts(JobView mapped, const Timeouts& limits)
      : job(std::move(mapped)),
        timeouts(limits),
        teams(kTeamSlots),
        heap(job.header().heap_bytes, kBlockSlots),
        released(kBlockSlots / 64) {
    static_assert(kRecordBytes == sizeof(PeRecord));
  }

  const sys::ForkMark fork_mark;
  JobView job;
  sys::Fd heap_fd;
  const Timeouts timeouts;
  const sys::SystemClock clock;  // futexes know no other
  std::vector<sys::Mapping> heaps;
  memory::Placement placement;
  std::vector<sys::Fd> processes;     // of the others; none where they cannot be watched
  std::vector<std::int32_t> awaited;  // PEs whose death ends waits for writes
  std::vector<TeamView> teams;
  Heap heap;
  std::vector<std::atomic<std::uint64_t>> released;  // bits of slots
  run::Mutex stream_mutex;
  Status stream_failure TOWPATH_GUARDED_BY(stream_mutex);
  std::vector<std::uint32_t> hosts;  // by PE
  std::shared_ptr<Remote> remote;    // null: all PEs are of this host; the first to be destroyed
};

/// While it lives, others that wait for this PE see what it is doing.
class World::Doing {
 public:
  Doing(const World& world, CallKind kind, std::uint32_t team) noexcept
      : record_(world.job().pe(world.my_pe())) {
    record_.in_team.store(team, std::memory_order_relaxed);
    record_.doing.store(static_cast<std::uint32_t>(kind), std::memory_order_relaxed);
  }
  ~Doing() { record_.doing.store(0, std::memory_order_relaxed); }
  Doing(const Doing&) = delete;
  Doing& operator=(const Doing&) = delete;

 private:
  PeRecord& record_;
};

inline Remote& World::remote() const noexcept { return *parts_->remote; }
inline const JobView& World::job() const noexcept { return parts_->job; }
inline TeamView& World::team(std::uint32_t slot) noexcept { return parts_->teams[slot]; }
inline Heap& World::heap() noexcept { return parts_->heap; }
inline std::vector<std::atomic<std::uint64_t>>& World::released() noexcept {
  return parts_->released;
}

inline Status World::check_mine() const {
  const auto state = job().pe(my_pe_).state.load(std::memory_order_relaxed);
  if (state != static_cast<std::uint32_t>(PeState::stopped)) [[likely]]
    return {};
  return given_up();
}

template <typename Ready>
Status World::wait(EventCount& event_count, const Ready& ready,
                   std::span<const std::int32_t> awaited) {
  if (run::look_for(ready, looks_)) return {};
  return wait_asleep(event_count, Condition::of(ready), awaited);
}

template <typename Ready>
Status World::wait_for_write(CallKind kind, const Ready& ready) {
  if (run::look_for(ready, looks_)) return {};
  const Doing doing(*this, kind, 0);
  return wait(job().pe(my_pe_).event_count, ready, parts_->awaited);
}

}  // namespace towpath::shmem
