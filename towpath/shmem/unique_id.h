// UniqueId: 128 bytes by which PEs that were started separately find each other.
//
// One PE makes it, the bytes travel by whatever means, and every PE passes them to its bootstrap.
// They hold where PE 0 is met (hosts.h): a name on its host, addresses and ports of that host, and
// a secret. On each host one PE then makes the job and hands its descriptors to the others, over an
// abstract Unix socket that an identifier of that host names; they run as the same user. Nothing
// listens when it is made, and no thread and no file is left behind.
//
//   offset 0         4       8      16       32            36                     100    128
//   +---------+-------+------+--------+--------------+----------------------+------+
//   | 65,664  | magic | name | secret | ports        | addresses            | 0    |
//   |         |       |      |        | 2 x u16      | 4 of IPv6, or mapped |      |
//   +---------+-------+------+--------+--------------+----------------------+------+
//     u32       u32     u64    2 x u64
//
// Invariants: the bytes are copied verbatim. Thread: immutable.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include <towpath/core/clock.h>
#include <towpath/core/result.h>

namespace towpath::shmem {

struct JobFiles;

struct UniqueIdOptions {
  bool for_this_host = false;  ///< all PEs are here: no addresses
  std::string interface;  ///< whose addresses to report; empty: of all, as far as there is room
};

class UniqueId {
 public:
  using Raw = std::array<std::byte, 128>;

  /// A new one, which no other call ever gives. PE 0 runs on the host where it was made. Cost:
  /// system calls.
  static UniqueId create(const UniqueIdOptions& options = {});
  /// Errors: invalid_argument (not made by create(), or not copied whole), unsupported (another
  /// version).
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
  Duration timeout = std::chrono::seconds(60);
};

/// As PE 0: gives `files` to all others. Returns when they have them.
/// Errors: already_exists (another PE 0), timed_out (the message names who is missing, and why the
/// last one was refused).
Status hand_out(const UniqueId& id, const JobFiles& files, const Joining& self);

/// As any other PE. Errors: timed_out (no PE 0), denied (it refuses: its words), corrupt.
Result<JobFiles> receive(const UniqueId& id, const Joining& self);

}  // namespace towpath::shmem
