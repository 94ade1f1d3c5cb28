// Context: a PE's symmetric memory, from its begin to its end.
//
//   TOWPATH_TRY(auto context, shmem::Context::open(bootstrap));
//   TOWPATH_TRY(auto inbox, context.allocate<int>(16));      // on every PE, by every PE
//   TOWPATH_TRY(inbox.p({.pe = (context.my_pe() + 1) % context.n_pes()}, 42));
//   TOWPATH_TRY(context.barrier());
//   TOWPATH_TRY(context.finalize());
//
// A process is one PE, as a rule; a test may have several, in threads. Calls marked collective are
// made by all PEs, in the same order, with the same figures; what differs is an error on all of
// them. A PE that ends otherwise than by finalize() ends the waits of those that wait for it with
// `peer_lost`, within milliseconds; other teams go on.
// Invariants: moved from, and finalized, every call fails with not_ready. The memory lives until
// the last buffer, region and team handle has gone.
// Thread: any; collective calls one at a time, and not beside open() and finalize().
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <towpath/core/checked.h>
#include <towpath/shmem/bootstrap.h>
#include <towpath/shmem/change.h>
#include <towpath/shmem/symmetric_buffer.h>
#include <towpath/shmem/team.h>
#include <towpath/shmem/world.h>

namespace towpath::shmem {

/// Mutual exclusion among all PEs, in the order in which they ask.
///
/// Invariants: letting go of the handle is never collective. A PE that ends while it holds the lock
/// breaks it: all that wait, and all that come later, learn which PE it was. In a forked child,
/// which is no PE, every call fails with not_ready.
/// Thread: one of each PE at a time; several may try beside each other.
class Lock {
 public:
  Lock() = default;
  /// One zeroed word on each PE; for Context.
  explicit Lock(SymmetricBuffer<std::uint64_t> word) noexcept : word_(std::move(word)) {}

  /// Waits for its turn. What the last holder wrote is visible then. Errors: not_ready (no lock,
  /// finalized), already_exists (this PE holds it), peer_lost (the lock is broken), timed_out (it
  /// is now).
  Status acquire();
  /// True when it was free and is now ours. Errors: not_ready, peer_lost (the lock is broken).
  Result<bool> try_acquire();
  /// By the holder: completes its puts and atomic operations first, as quiet() does. Errors: as
  /// acquire(); not_ready also: this PE does not hold it.
  Status release();

 private:
  SymmetricBuffer<std::uint64_t> word_;
};

/// The same on a word of the heap that users keep as an OpenSHMEM lock.
Status acquire_lock(World& world, std::uint64_t offset);
Result<bool> try_acquire_lock(World& world, std::uint64_t offset);
Status release_lock(World& world, std::uint64_t offset);

struct Version {
  int major = 0;
  int minor = 0;
};

/// Of this library.
Version version() noexcept;
/// Of the OpenSHMEM specification that it follows.
Version specification() noexcept;

using ContextOptions = WorldOptions;

class Context {
 public:
  /// Collective. Errors: timed_out (a PE did not begin; the message names it), peer_lost,
  /// invalid_argument, exhausted, already_exists (this PE was begun before).
  static Result<Context> open(Bootstrap bootstrap = {}, const ContextOptions& options = {});
  Context(Context&&) noexcept = default;
  Context& operator=(Context&&) noexcept = default;
  /// Leaves, alone: no PE is waited for. PEs that wait for this one are notified. See finalize().
  ~Context() = default;

  /// -1 without a job (moved from).
  int my_pe() const noexcept { return world_ ? static_cast<int>(world_->my_pe()) : -1; }
  int n_pes() const noexcept { return world_ ? static_cast<int>(world_->pes()) : -1; }

  /// Collective. Count 0 is legal. Aligned as T is, at least. Errors: invalid_argument (the PEs
  /// differ; alignment), out_of_range (bytes that do not fit 64 bits), exhausted (the heap; with
  /// its figures), peer_lost, timed_out.
  template <typename T>
  Result<SymmetricBuffer<T>> allocate(std::uint64_t count, const AllocateOptions& options = {}) {
    const auto bytes = checked_multiply(count, sizeof(T));
    if (!bytes)
      return error(Code::out_of_range, cat(count, " elements of ", sizeof(T), " bytes"),
                   "no memory is that large");
    AllocateOptions wanted = options;
    if (is_power_of_two(options.alignment))  // or else the heap refuses it
      wanted.alignment = std::max<std::uint64_t>(options.alignment, alignof(T));
    TOWPATH_TRY(SharedBlock block, allocate_bytes(*bytes, wanted));
    return SymmetricBuffer<T>(std::move(block));
  }
  template <typename T>
  Result<SymmetricBuffer<T>> allocate_zeroed(std::uint64_t count) {
    return allocate<T>(count, {.zeroed = true});
  }
  /// Collective: lets go of `buffer`, and of all that all PEs let go of before. Never needed: a
  /// buffer that is just destroyed is reclaimed at the next allocation.
  template <typename T>
  Status free(SymmetricBuffer<T> buffer) {
    SharedBlock block = buffer.block();
    buffer = {};
    return free_block(std::move(block));
  }
  /// Collective.
  Result<Lock> allocate_lock();

  Team world() const { return Team::from_raw(world_, Team::kWorld); }
  /// Those whose memory can be reached by loads and stores: the PEs of this host.
  Team shared() const { return Team::from_raw(world_, Team::kShared); }
  Team team_from_raw(std::int32_t raw) const { return Team::from_raw(world_, raw); }

  /// Collective. barrier(): all puts of all PEs are in place. sync(): all PEs were here.
  Status barrier() { return world().barrier(); }
  Status sync() { return world().sync(); }
  /// Puts and atomic operations of this thread before are seen before those after, by every PE.
  void fence() const noexcept { thread_fence(std::memory_order_release); }
  /// All puts and non-blocking operations of this thread are complete.
  void quiet() const noexcept {
    thread_fence(std::memory_order_seq_cst);
    if (world_) world_->quiet_far();
  }
  /// barrier() in the order of a stream; a failure is kept for stream_failure().
  Status barrier_on_stream(device::Stream& stream);
  Status quiet_on_stream(device::Stream& stream) const;
  /// The first failure of what was given to streams, puts and gets too, since this was last asked.
  Status stream_failure();

  /// PEs that have ended.
  std::vector<int> losses() const;
  /// From here on, PEs that are lost now end no waits but those of teams that they are in. Not
  /// while another thread of this PE waits.
  void forget_losses();

  /// Whether an address in the heap is the same on this PE as on those for which this is true too.
  bool has_same_addresses() const noexcept { return world_ && world_->has_same_addresses(); }
  std::uint64_t heap_bytes() const noexcept { return world_ ? world_->heap_bytes() : 0; }
  /// In which pages this PE's heap lies, and where, if that was asked for (Bootstrap::pages).
  memory::Placement heap_placement() const {
    return world_ ? world_->heap_placement() : memory::Placement();
  }
  std::uint64_t free_bytes() const noexcept;

  /// Collective: waits for all, then ends. Idempotent; in a forked child nothing. Errors:
  /// peer_lost, timed_out; it has ended all the same.
  Status finalize();

  /// For the C doors.
  const std::shared_ptr<World>& underneath() const noexcept { return world_; }

 private:
  explicit Context(std::shared_ptr<World> world);
  Result<SharedBlock> allocate_bytes(std::uint64_t bytes, const AllocateOptions& options);

  std::shared_ptr<World> world_;         // lives on in buffers and handles of teams
  std::shared_ptr<const void> leaving_;  // dies with the context
};

}  // namespace towpath::shmem
