// Calls that need all members of a team: they meet, and learn whether all came for the same.
// Thread: one of each PE at a time.
#pragma once

#include <cstdint>

#include <towpath/shmem/call.h>
#include <towpath/shmem/world.h>

namespace towpath::shmem {

struct Arrival {
  Call call;
  /// What the others may read of this member after the call: note_of().
  std::uint64_t note = 0;
};

/// Returns when all members have arrived. All that they wrote to each other before is visible then.
/// Errors, on all members: invalid_argument (they came for different calls; the message has both),
/// peer_lost (a member ended; nothing can be done with the team any more), timed_out (the same).
Status gather(World& world, TeamView& team, const Arrival& arrival);

/// What a member noted in the call that gather() has just returned from. Holds until the next one.
std::uint64_t note_of(const World& world, const TeamView& team, std::uint32_t member);

}  // namespace towpath::shmem
