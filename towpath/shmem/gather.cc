#include <algorithm>
#include <vector>

#include <towpath/core/format.h>
#include <towpath/shmem/change.h>
#include <towpath/shmem/gather.h>
#include <towpath/shmem/world_parts.h>

namespace towpath::shmem {
namespace {

MemberLine& line_of(const World& world, const TeamView& team, std::uint32_t member,
                    std::uint32_t round) {
  return world.job().line(team.slot, member, round % 2);
}

Status mismatch(const World& world, const TeamView& team, std::uint32_t round) {
  const Call& first = line_of(world, team, 0, round).call;
  std::string out = cat("PE ", team.members[0], " calls ", to_string(first));
  for (std::uint32_t member = 1; member < team.members.size(); ++member) {
    const Call& other = line_of(world, team, member, round).call;
    if (other != first) out += cat(", PE ", team.members[member], " calls ", to_string(other));
  }
  return error(Code::invalid_argument, std::move(out),
               "all members of a team make the same collective calls in the same order");
}

Status report_other_hosts(const World& world, const TeamView& team, const Arrival& arrival,
                          std::uint32_t round) {
  return world.remote().arrive({.slot = team.slot,
                                .member = static_cast<std::uint32_t>(team.my_index),
                                .members = static_cast<std::uint32_t>(team.members.size()),
                                .round = round,
                                .call = arrival.call,
                                .note = arrival.note},
                               team.doors);
}

/// One round, by the member's own count and by the gathering's.
struct Round {
  std::uint32_t mine = 0;
  std::uint32_t open = 0;
};

/// Those that have not come. Those of other hosts are brought by this host's first member
/// (Remote::arrive()), which is missed as long as one of them is, though it has come itself.
std::vector<std::int32_t> missed_by(const World& world, const TeamView& team, const Round& round) {
  std::vector<std::int32_t> missed;
  for (std::uint32_t member = 0; member < team.members.size(); ++member)
    if (line_of(world, team, member, round.mine).arrived.load(std::memory_order_acquire) !=
        round.open + 1)
      missed.push_back(team.members[member]);
  const auto is_here = [&](std::int32_t pe) {
    return world.is_here(static_cast<std::uint32_t>(pe));
  };
  if (std::ranges::all_of(missed, is_here)) return missed;
  const std::int32_t door = *std::ranges::find_if(team.members, is_here);  // this PE, at the latest
  if (std::ranges::count(missed, door) == 0) missed.push_back(door);
  return missed;
}

/// With members on several hosts: on another host the round may be over, and members gone, before
/// all are known to have come here. Those that had come are not missed.
template <typename IsOver>
Status wait_for_missed(World& world, const TeamView& team, const Round& round,
                       const IsOver& is_over) {
  for (std::vector<std::int32_t> missed = missed_by(world, team, round);;) {
    Status waited = world.wait(world.job().team(team.slot).barrier.event_count(), is_over, missed);
    if (waited.code() != Code::peer_lost) return waited;
    auto still_missed = missed_by(world, team, round);
    if (still_missed == missed) return waited;
    missed = std::move(still_missed);
  }
}

}  // namespace

Status gather(World& world, TeamView& team, const Arrival& arrival) {
  TOWPATH_TRY(world.check_open());
  TOWPATH_TRY(world.check_process());
  TOWPATH_TRY(world.check_mine());
  TOWPATH_TRY(team.broken);
  const std::uint32_t mine = team.rounds++;
  MemberLine& line = line_of(world, team, static_cast<std::uint32_t>(team.my_index), mine);
  line.call = arrival.call;
  line.note = arrival.note;
  Barrier& barrier = world.job().team(team.slot).barrier;
  const std::uint32_t round = barrier.round();
  const auto members = static_cast<std::uint32_t>(team.members.size());
  // What this PE has put is in place before anybody hears that it came. A barrier is also about
  // PEs that are no members, on whatever host.
  if (!team.doors.empty() || arrival.call.kind == CallKind::barrier) world.quiet_far();
  if (!team.doors.empty()) team.broken = report_other_hosts(world, team, arrival, mine);
  TOWPATH_TRY(team.broken);
  const bool is_last = barrier.arrive(digest_of(arrival.call), members);
  // Not before it counts: one that ends on its way is missed. Release: pairs with missed_by().
  line.arrived.store(round + 1, std::memory_order_release);
  if (!is_last) {
    const World::Doing doing(world, arrival.call.kind, team.slot);
    const auto is_over = [&] { return barrier.is_over(round); };
    Status waited = team.doors.empty()
                        ? world.wait(barrier.event_count(), is_over, team.members)
                        : wait_for_missed(world, team, {.mine = mine, .open = round}, is_over);
    if (!waited.ok()) {
      team.broken = error(waited.code(), cat(name_of(arrival.call.kind), " of team ", team.slot,
                                             " of ", members, " PEs did not end"))
                        .because(waited);
      return team.broken;
    }
  }
  thread_fence(std::memory_order_acquire);  // pairs with the transports' (change.h)
  return barrier.differed_in(round) ? mismatch(world, team, mine) : Status();
}

std::uint64_t note_of(const World& world, const TeamView& team, std::uint32_t member) {
  return line_of(world, team, member, team.rounds - 1).note;
}

}  // namespace towpath::shmem
