// UniqueId: 128 bytes by which PEs that were started separately find each other on one host.
//
// One PE makes it, the bytes travel by whatever means, and every PE passes them to its bootstrap.
// PE 0 then makes the job and hands its descriptors, over an abstract Unix socket that the bytes
// name, to the others, who must know the bytes' secret and run as the same user. No thread and no
// file is left behind.
// Invariants: the bytes are copied verbatim. Thread: immutable.
#pragma once

#include <array>
#include <cstddef>

#include <towpath/core/clock.h>
#include <towpath/core/result.h>
#include <towpath/shmem/job.h>

namespace towpath::shmem {

class UniqueId {
 public:
  using Raw = std::array<std::byte, 128>;

  /// A new one, which no other call ever gives. Cost: system calls.
  static UniqueId create();
  /// Errors: invalid_argument (not made by create(), or not copied whole).
  static Result<UniqueId> from_raw(const Raw& raw);
  const Raw& raw() const noexcept { return raw_; }

 private:
  explicit UniqueId(const Raw& raw) noexcept : raw_(raw) {}
  Raw raw_;
};

/// Who comes, and for how long it tries.
struct Joining {
  int my_pe = 0;
  int pes = 1;
  Duration patience = std::chrono::seconds(60);
};

/// As PE 0: gives `files` to all others. Returns when they have them.
/// Errors: already_exists (another PE 0), timed_out (the message names who is missing, and why the
/// last one was refused).
Status hand_out(const UniqueId& id, const JobFiles& files, const Joining& self);

/// As any other PE. Errors: timed_out (no PE 0), denied (it refuses: its words), corrupt.
Result<JobFiles> receive(const UniqueId& id, const Joining& self);

}  // namespace towpath::shmem
