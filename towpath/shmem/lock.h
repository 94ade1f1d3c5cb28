// Lock: mutual exclusion among all PEs, in the order in which they ask.
//
// Invariants: letting go of the handle is never collective. A PE that ends while it holds the lock
// breaks it: all that wait, and all that come later, learn which PE it was.
// Thread: one of each PE at a time.
#pragma once

#include <utility>

#include <towpath/shmem/symmetric_buffer.h>

namespace towpath::shmem {

class Lock {
 public:
  Lock() = default;
  /// One zeroed word on each PE; for Context.
  explicit Lock(SymmetricBuffer<std::uint64_t> word) noexcept : word_(std::move(word)) {}

  /// Waits for its turn. Not again by the holder. What the last holder wrote is visible then.
  /// Errors: not_ready (no lock, finalized), peer_lost (the lock is broken), timed_out (it is now).
  Status acquire();
  /// True when it was free and is now ours. Errors: not_ready, peer_lost (the lock is broken).
  Result<bool> try_acquire();
  /// By the holder: completes its puts and atomic operations first, as quiet() does. Errors: as
  /// acquire().
  Status release();

 private:
  SymmetricBuffer<std::uint64_t> word_;
};

/// The same on a word of the heap that users keep as an OpenSHMEM lock.
Status acquire_lock(World& world, std::uint64_t offset);
Result<bool> try_acquire_lock(World& world, std::uint64_t offset);
Status release_lock(World& world, std::uint64_t offset);

}  // namespace towpath::shmem
