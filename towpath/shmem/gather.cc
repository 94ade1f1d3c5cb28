#include <towpath/core/text.h>
#include <towpath/shmem/gather.h>

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

/// What this PE has put is in place before anybody hears that it came.
Status tell_other_hosts(const World& world, const TeamView& team, const Arrival& arrival,
                        std::uint32_t round) {
  world.quiet_far();
  return world.remote().arrive({.slot = team.slot,
                                .member = static_cast<std::uint32_t>(team.my_index),
                                .members = static_cast<std::uint32_t>(team.members.size()),
                                .round = round,
                                .call = arrival.call,
                                .note = arrival.note},
                               team.doors);
}

}  // namespace

Status gather(World& world, TeamView& team, const Arrival& arrival) {
  TOWPATH_TRY(world.check_open());
  TOWPATH_TRY(team.broken);
  const std::uint32_t mine = team.rounds++;
  MemberLine& line = line_of(world, team, static_cast<std::uint32_t>(team.my_index), mine);
  line.call = arrival.call;
  line.note = arrival.note;
  Gathering& gathering = world.job().team(team.slot).gathering;
  const std::uint32_t round = gathering.round();
  const auto members = static_cast<std::uint32_t>(team.members.size());
  if (!team.doors.empty()) team.broken = tell_other_hosts(world, team, arrival, mine);
  TOWPATH_TRY(team.broken);
  if (!gathering.arrive(digest_of(arrival.call), members)) {
    const World::Doing doing(world, arrival.call.kind, team.slot);
    Status waited = world.wait(
        gathering.bell(), [&] { return gathering.is_over(round); }, team.members);
    if (!waited.ok()) {
      team.broken = error(waited.code(), cat(name_of(arrival.call.kind), " of team ", team.slot,
                                             " of ", members, " PEs did not end"))
                        .because(waited);
      return team.broken;
    }
  }
  return gathering.differed_in(round) ? mismatch(world, team, mine) : Status();
}

std::uint64_t note_of(const World& world, const TeamView& team, std::uint32_t member) {
  return line_of(world, team, member, team.rounds - 1).note;
}

}  // namespace towpath::shmem
