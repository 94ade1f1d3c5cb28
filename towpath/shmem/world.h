// World: one PE's view of its job. Below it lies shared memory, above it what users call.
//
// It maps the control segment and the heaps, reports where a byte of another PE lies, waits, and
// sees deaths. It has no thread: who waits looks, at the end of every short sleep, whether those
// that it waits for still live. What needs all PEs is in gather.h and allocation.h.
//
// Addresses: the own heap lies at kSymmetricBase, if nothing else does, so that an address in it is
// the same on all PEs; otherwise, and for several PEs in one process, anywhere. Either way
// `shift(pe)` added to a local address is the same place in the heap of `pe`.
// Thread: any, but for what says otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/run/spin_then_wait.h>
#include <towpath/shmem/bootstrap.h>
#include <towpath/shmem/fair_start.h>
#include <towpath/shmem/heap.h>
#include <towpath/shmem/job.h>
#include <towpath/shmem/remote.h>
#include <towpath/sys/clock.h>

namespace towpath::sys {
class ForkMark;
}

namespace towpath::shmem {

/// Free under ASan and TSan too, and below all that the kernel places by itself.
inline constexpr std::uint64_t kSymmetricBase = 0x7e80'0000'0000;

struct WorldOptions {
  Timeouts timeouts;
  /// How long to look before sleeping; nothing: by the number of cores that the PEs have.
  std::optional<run::Looks> looks;
};

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

class World {
  struct Private {};

 public:
  static Result<std::shared_ptr<World>> open(Bootstrap bootstrap, const WorldOptions& options);
  World(Private, JobView job, const WorldOptions& options);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World();

  std::uint32_t my_pe() const noexcept { return my_pe_; }
  std::uint32_t pes() const noexcept { return job_.pes(); }
  /// As pes(), but 0 once finalized: one comparison shows a wrong PE and a wrong moment.
  std::uint32_t open_pes() const noexcept { return open_pes_.load(std::memory_order_relaxed); }
  bool has_same_addresses() const noexcept { return address_of(heap_base()) == kSymmetricBase; }

  std::byte* heap_base() const noexcept { return heaps_[my_pe_].data(); }
  std::uint64_t heap_bytes() const noexcept { return job_.header().heap_bytes; }
  /// In which pages the own heap lies, and where: what was had of what was asked for.
  const memory::Placement& heap_placement() const noexcept { return placement_; }
  int heap_fd() const noexcept { return heap_fd_.get(); }
  /// What to add to a local heap address; kFar for a PE of another host. `pe` < pes().
  std::uint64_t shift(std::uint32_t pe) const noexcept { return shifts_[pe]; }
  static constexpr std::uint64_t kFar = ~std::uint64_t{0};  // no shift is odd
  /// Where the heap of a PE of this host lies here.
  std::byte* heap_of(std::uint32_t pe) const noexcept { return heaps_[pe].data(); }
  bool is_here(std::uint32_t pe) const noexcept { return shifts_[pe] != kFar; }

  /// The way to the others; only when there are some.
  Remote& remote() const noexcept { return *remote_; }
  /// Of these PEs, the first on each other host.
  std::vector<std::uint32_t> doors_to(std::span<const std::int32_t> pes) const;

  // Bytes and words of any PE's heap, wherever it is; ranges were checked. Errors: Remote's, and
  // not_ready (a forked child reaches no other host: the connections are the PE's).

  Status read(RemoteAddress from, ByteSpan into) const;
  Status write(RemoteAddress to, ConstByteSpan bytes) const;
  Result<std::uint64_t> change(RemoteAddress at, const Change& change) const;
  /// As change(); what it was is not asked.
  Status post(RemoteAddress at, const Change& change) const;
  /// Puts and posts to other hosts are in place.
  void quiet_far() const noexcept {
    if (remote_ != nullptr && !is_inherited()) remote_->quiet();
  }

  /// After a write into the heap of `pe`: wakes who sleeps there. Sleepers that are just lying down
  /// may be missed unless a full fence (an atomic operation) lies between; they look again soon.
  /// For a PE of another host this is nobody: there the engine does it.
  void nudge(std::uint32_t pe) const noexcept { job_.pe(pe).event_count.ring_if_needed(); }

  /// Waits until `ready()`; looks first, then sleeps on `bell`. Before giving up it looks once
  /// more. Errors: peer_lost (one of `awaited` ended), timed_out.
  template <typename Ready>
  Status wait(EventCount& event_count, const Ready& ready, std::span<const std::int32_t> awaited) {
    if (run::look_for(ready, looks_)) return {};
    return wait_asleep(event_count, Condition::of(ready), awaited);
  }
  /// Whether `holds()`, which is true of an element of the own heap, is so of the whole of it: long
  /// puts from other hosts come in parts.
  template <typename Holds>
  bool is_whole(ConstByteSpan element, const Holds& holds) const {
    if (remote_ == nullptr || is_inherited()) return true;
    return remote_->is_whole(element, Condition::of(holds));
  }
  /// Of searches for one of several elements in the own heap.
  FairStart& fair_start() noexcept { return fair_start_; }
  /// For something in the own heap that any PE may write.
  template <typename Ready>
  Status wait_for_write(CallKind kind, const Ready& ready) {
    if (run::look_for(ready, looks_)) return {};
    const Doing doing(*this, kind, 0);
    return wait(job_.pe(my_pe_).event_count, ready, awaited_);
  }

  /// While it lives, others that wait for this PE see what it is doing.
  class Doing {
   public:
    Doing(const World& world, CallKind kind, std::uint32_t team) noexcept
        : record_(world.job_.pe(world.my_pe_)) {
      record_.in_team.store(team, std::memory_order_relaxed);
      record_.doing.store(static_cast<std::uint32_t>(kind), std::memory_order_relaxed);
    }
    ~Doing() { record_.doing.store(0, std::memory_order_relaxed); }
    Doing(const Doing&) = delete;
    Doing& operator=(const Doing&) = delete;

   private:
    PeRecord& record_;
  };

  /// ok, or peer_lost with those of them that have ended. Cost: a load unless somebody has; with
  /// `look` a system call each.
  Status lost_among(std::span<const std::int32_t> pes, bool look) const;
  /// PEs that have ended, as far as is known.
  std::vector<int> losses() const;
  /// Those that are lost now no longer end waits for writes. Not beside such waits.
  void forget_losses();
  /// "PE 3 has not come: it is in barrier of team 2".
  std::string whereabouts(std::span<const std::int32_t> awaited) const;

  /// ok, or why a PE, or this moment, is wrong.
  Status check_pe(std::int64_t pe) const;
  Status check_open() const;
  /// ok, or peer_lost: the others have given this PE up. Cost: a load.
  Status check_mine() const {
    const auto state = job_.pe(my_pe_).state.load(std::memory_order_relaxed);
    if (state != static_cast<std::uint32_t>(PeState::stopped)) [[likely]]
      return {};
    return given_up();
  }

  const JobView& job() const noexcept { return job_; }
  /// One thread at a time uses what follows: it belongs to the calls that need all PEs.
  TeamView& team(std::uint32_t slot) noexcept { return teams_[slot]; }
  Heap& heap() noexcept { return *heap_; }
  std::vector<std::atomic<std::uint64_t>>& released() noexcept { return released_; }

  /// Asks whoever started the PEs, on all hosts, to end them with this status.
  void end_all(int status) const noexcept;
  /// Came to the end with all others; further calls fail.
  void finish() noexcept;
  /// The same alone, unless it has finished: others that wait for this PE are notified.
  void leave() noexcept;
  /// Whether this process is a forked child of the PE: it has the memory, and is no PE. What it
  /// ends is not the PE, and it meets nobody: gather() refuses, finish() and leave() do nothing.
  bool is_inherited() const noexcept;
  /// ok, or not_ready: in such a child.
  Status check_process() const;

 private:
  Status map_heaps(JobFiles files, const HeapPages& pages);
  Status meet();
  Status watch_others();
  Status wait_asleep(EventCount& event_count, Condition ready,
                     std::span<const std::int32_t> awaited);
  bool has_ended(std::uint32_t pe, bool look) const;
  bool is_stopped(std::uint32_t pe) const;
  Status given_up() const;

  const std::unique_ptr<const sys::ForkMark> fork_mark_;
  JobView job_;
  sys::Fd heap_fd_;
  const Timeouts timeouts_;
  const sys::SystemClock clock_;  // futexes know no other
  run::Looks looks_;
  std::uint32_t my_pe_ = 0;
  std::atomic<std::uint32_t> open_pes_{0};
  std::vector<sys::Mapping> heaps_;
  memory::Placement placement_;
  std::vector<std::uint64_t> shifts_;
  std::vector<sys::Fd> processes_;     // of the others; none where they cannot be watched
  std::vector<std::int32_t> awaited_;  // PEs whose death ends waits for writes
  FairStart fair_start_;
  std::vector<TeamView> teams_;
  std::unique_ptr<Heap> heap_;
  std::vector<std::atomic<std::uint64_t>> released_;  // bits of slots
  std::vector<std::uint32_t> hosts_;                  // by PE
  std::unique_ptr<Remote> remote_;  // null: all PEs are of this host; the first to be destroyed
};

}  // namespace towpath::shmem
