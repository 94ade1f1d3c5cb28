// What is done with a UniqueId (bootstrap.h): where PE 0 is met by it, and how a job's descriptors
// get from the PE of a host that made it to the others there: over an abstract Unix socket that an
// identifier of that host names; they run as the same user. Nothing listens when an identifier is
// made, and no thread and no file is left behind.
//
//   offset 0         4       8      16       32            36                     100    128
//   +---------+-------+------+--------+--------------+----------------------+------+
//   | 65,664  | magic | name | secret | ports        | addresses            | 0    |
//   |         |       |      |        | 2 x u16      | 4 of IPv6, or mapped |      |
//   +---------+-------+------+--------+--------------+----------------------+------+
//     u32       u32     u64    2 x u64
//
// Thread: any.
#pragma once

#include <vector>

#include <towpath/core/clock.h>
#include <towpath/core/result.h>
#include <towpath/net/address.h>
#include <towpath/net/token.h>
#include <towpath/shmem/bootstrap.h>

namespace towpath::shmem {

/// Where PE 0 of a job with this identifier is met, and the secret for it.
std::vector<net::Address> places_of(const UniqueId& id);
net::Token token_of(const UniqueId& id);

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
