#include <algorithm>
#include <numeric>

#include <towpath/core/format.h>
#include <towpath/shmem/gather.h>
#include <towpath/shmem/team.h>
#include <towpath/shmem/team_slots.h>
#include <towpath/shmem/world_parts.h>

namespace towpath::shmem {
namespace {

/// A handle's number, of the serial and the slot, is one of 31 bits.
constexpr std::uint32_t kSerials = 1U << 20U;
static_assert(std::uint64_t{kSerials} * kTeamSlots <= 1U << 30U);

bool is_predefined(std::uint32_t slot) noexcept { return slot < kFirstFreeSlot; }

/// Enters a team on this PE.
TeamView& enter(World& world, std::uint32_t slot, std::vector<std::int32_t> members) {
  TeamView& view = world.team(slot);
  const auto self =
      std::ranges::find(members, static_cast<std::int32_t>(world.my_pe())) - members.begin();
  view = {.slot = slot,
          .serial = (view.serial + 1) % kSerials,
          .doors = world.doors_to(members),
          .my_index = static_cast<std::int32_t>(self),
          .alive = true};
  view.members = std::move(members);
  return view;
}

/// Of one member of a new team. Errors: peer_lost (PE 0, which numbers them, is on another host).
Result<std::uint64_t> take_new_slot(World& world) {
  return world.is_here(0) ? take_team_slot(world.job()) : world.remote().take_slot();
}

void leave_slot(World& world, std::uint64_t slot, std::uint32_t members) noexcept {
  const auto index = static_cast<std::uint32_t>(slot);
  if (world.is_here(0))
    leave_team_slot(world.job(), index, members);
  else
    world.remote().leave_slot(index, members);
}

/// What a member notes that has no answer.
constexpr std::uint64_t kNoAnswer = kNoSlot - 1;

Status no_slot() {
  return error(Code::exhausted,
               cat("all ", kTeamSlots - kFirstFreeSlot, " teams of the job are in use"),
               "destroy some");
}

/// Makes the teams of one split: `mine` are the members of the new team that this PE is in, by
/// index in `parent`; empty if it is in none. The first of them takes a slot and notes it.
Result<std::uint64_t> agree_on_slot(World& world, TeamView& parent, const Call& call,
                                    std::span<const std::int32_t> mine) {
  TOWPATH_TRY(gather(world, parent, {.call = call}));
  const bool leads = !mine.empty() && mine.front() == parent.my_index;
  const Result<std::uint64_t> asked = leads ? take_new_slot(world) : 0;
  const std::uint64_t taken = asked.ok() ? *asked : kNoAnswer;
  TOWPATH_TRY(gather(world, parent, {.call = call, .note = taken}));
  for (std::uint32_t member = 0; member < parent.members.size(); ++member) {
    const std::uint64_t note = note_of(world, parent, member);
    if (note < kTeamSlots) continue;
    if (leads && taken < kTeamSlots) leave_slot(world, taken, 1);
    TOWPATH_TRY(asked);
    if (note == kNoSlot) return no_slot();
    return error(Code::peer_lost,
                 cat("PE 0, which numbers teams, does not answer PE ", parent.members[member]),
                 "split teams while it lives");
  }
  return mine.empty() ? kNoSlot : note_of(world, parent, static_cast<std::uint32_t>(mine.front()));
}

std::vector<std::int32_t> pes_of(const TeamView& parent, std::span<const std::int32_t> indexes) {
  std::vector<std::int32_t> pes;
  for (const std::int32_t index : indexes)
    pes.push_back(parent.members[static_cast<std::size_t>(index)]);
  return pes;
}

Status check(const Strided& which, std::size_t pes) {
  const std::int64_t last =
      which.start + which.stride * (static_cast<std::int64_t>(which.size) - 1);
  const auto inside = [&](std::int64_t pe) {
    return pe >= 0 && pe < static_cast<std::int64_t>(pes);
  };
  if (which.size >= 1 && inside(which.start) && inside(last) &&
      (which.stride != 0 || which.size == 1))
    return {};
  return error(Code::invalid_argument,
               cat("a split with start ", which.start, ", stride ", which.stride, ", size ",
                   which.size, " of a team of ", pes, " PEs"),
               "start and the last member are indexes of the parent team");
}

}  // namespace

Status make_predefined_teams(World& world) {
  std::vector<std::int32_t> all(world.pes()), here;
  std::iota(all.begin(), all.end(), 0);
  std::ranges::copy_if(all, std::back_inserter(here), [&](std::int32_t pe) {
    return world.is_here(static_cast<std::uint32_t>(pe));
  });
  enter(world, Team::kWorld, std::move(all));
  enter(world, Team::kShared, std::move(here));
  return {};
}

Result<std::uint32_t> Team::take_slot(World& world) {
  TOWPATH_TRY(const std::uint64_t slot, take_new_slot(world));
  if (slot == kNoSlot) return no_slot();
  return static_cast<std::uint32_t>(slot);
}

Team Team::agreed(const std::shared_ptr<World>& world, std::uint32_t slot,
                  std::vector<std::int32_t> pes) {
  return Team(world, enter(*world, slot, std::move(pes)));
}

Team::Team(std::shared_ptr<World> world, const TeamView& view)
    : world_(std::move(world)), slot_(view.slot), serial_(view.serial) {}

Team Team::from_raw(std::shared_ptr<World> world, std::int32_t raw) {
  if (world == nullptr || raw < 0) return {};
  const auto number = static_cast<std::uint32_t>(raw);
  Team team;
  team.slot_ = number % kTeamSlots;
  team.serial_ = is_predefined(team.slot_) ? world->team(team.slot_).serial : number / kTeamSlots;
  team.world_ = std::move(world);
  return team.view() != nullptr ? team : Team();
}

std::int32_t Team::raw() const {
  if (view() == nullptr) return kInvalid;
  const std::uint32_t above = is_predefined(slot_) ? 0 : serial_ * kTeamSlots;
  return static_cast<std::int32_t>(above + slot_);
}

TeamView* Team::view() const noexcept {
  if (world_ == nullptr) return nullptr;
  TeamView& view = world_->team(slot_);
  return view.alive && view.serial == serial_ ? &view : nullptr;
}

Result<TeamView*> Team::find() const {
  if (TeamView* found = view()) return found;
  return error(Code::not_ready, "this PE has no such team: it is no member, or it was destroyed",
               "ask is_member() first");
}

int Team::my_pe() const {
  const TeamView* found = view();
  return found != nullptr ? found->my_index : -1;
}

int Team::n_pes() const {
  const TeamView* found = view();
  return found != nullptr ? static_cast<int>(found->members.size()) : -1;
}

int Team::translate(int pe, const Team& other) const {
  const TeamView* from = view();
  const TeamView* to = other.view();
  if (from == nullptr || to == nullptr || pe < 0 || pe >= n_pes()) return -1;
  const auto found = std::ranges::find(to->members, from->members[static_cast<std::size_t>(pe)]);
  return found == to->members.end() ? -1 : static_cast<int>(found - to->members.begin());
}

Result<Team> Team::split_strided(const Strided& which) const {
  TOWPATH_TRY(TeamView* const parent, find());
  const auto bits = [](int value) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  };
  const Call call{.kind = CallKind::split,
                  .arguments = {bits(which.start), bits(which.stride), bits(which.size)}};
  if (Status wrong = check(which, parent->members.size()); !wrong.ok()) {
    TOWPATH_TRY(gather(*world_, *parent, {.call = call}));
    return wrong;
  }
  std::vector<std::int32_t> indexes;
  for (int member = 0; member < which.size; ++member)
    indexes.push_back(which.start + member * which.stride);
  if (std::ranges::find(indexes, parent->my_index) == indexes.end()) indexes.clear();
  TOWPATH_TRY(const std::uint64_t slot, agree_on_slot(*world_, *parent, call, indexes));
  if (indexes.empty()) return Team();
  return Team(world_, enter(*world_, static_cast<std::uint32_t>(slot), pes_of(*parent, indexes)));
}

Result<TeamPair> Team::split_2d(int x_range) const {
  TOWPATH_TRY(TeamView* const parent, find());
  const Call call{.kind = CallKind::split_2d, .arguments = {static_cast<std::uint64_t>(x_range)}};
  const auto size = static_cast<std::int32_t>(parent->members.size());
  if (x_range < 1) {
    TOWPATH_TRY(gather(*world_, *parent, {.call = call}));
    return error(Code::invalid_argument, cat("a 2-D split with rows of ", x_range, " PEs"),
                 "use at least 1");
  }
  const std::int32_t row_size = std::min(x_range, size);
  std::vector<std::int32_t> row, column;
  for (std::int32_t index = 0; index < size; ++index) {
    if (index / row_size == parent->my_index / row_size) row.push_back(index);
    if (index % row_size == parent->my_index % row_size) column.push_back(index);
  }
  const auto make = [&](const std::vector<std::int32_t>& indexes) -> Result<Team> {
    TOWPATH_TRY(const std::uint64_t slot, agree_on_slot(*world_, *parent, call, indexes));
    return Team(world_, enter(*world_, static_cast<std::uint32_t>(slot), pes_of(*parent, indexes)));
  };
  TOWPATH_TRY(Team x, make(row));
  Result<Team> y = make(column);
  if (!y.ok()) {
    TOWPATH_TRY(x.destroy());
    return y.status();
  }
  return TeamPair{.x = std::move(x), .y = *std::move(y)};
}

Status Team::destroy() const {
  TOWPATH_TRY(TeamView* const team, find());
  if (is_predefined(slot_)) return {};
  TOWPATH_TRY(gather(*world_, *team, {.call = {.kind = CallKind::destroy}}));
  const auto members = static_cast<std::uint32_t>(team->members.size());
  team->alive = false;
  leave_slot(*world_, slot_, members);
  return {};
}

Status Team::barrier() const {
  TOWPATH_TRY(TeamView* const team, find());
  return gather(*world_, *team, {.call = {.kind = CallKind::barrier}});
}

Status Team::sync() const {
  TOWPATH_TRY(TeamView* const team, find());
  return gather(*world_, *team, {.call = {.kind = CallKind::sync}});
}

}  // namespace towpath::shmem
