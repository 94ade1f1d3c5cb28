#include <algorithm>
#include <array>
#include <cstring>

#include <towpath/core/format.h>
#include <towpath/shmem/collectives.h>
#include <towpath/shmem/gather.h>
#include <towpath/shmem/world_parts.h>

namespace towpath::shmem::internal {
namespace {

/// A byte of a member, by its index in the team.
RemoteAddress on(const TeamView& team, std::uint32_t member, std::uint64_t offset) {
  return {.pe = static_cast<std::uint32_t>(team.members[member]), .offset = offset};
}

std::uint32_t size_of(const TeamView& team) noexcept {
  return static_cast<std::uint32_t>(team.members.size());
}

/// Nobody changes what others still read: all leave together.
Status leave(World& world, TeamView& team, CallKind kind) {
  return gather(world, team, {.call = {.kind = kind}});
}

/// In place if this host has them; otherwise in `far`.
Result<const std::byte*> values_of(const World& world, RemoteAddress from, ByteSpan far) {
  if (world.is_here(from.pe)) return world.heap_of(from.pe) + from.offset;
  TOWPATH_TRY(world.read(from, far));
  return far.data();
}

/// What one member computes of a reduction, as much at a time as fits.
class Share {
 public:
  Share(const World& world, const TeamView& team, const Folding& folding)
      : world_(world), team_(team), folding_(folding) {
    if (team.doors.empty() && folding.element_bytes <= kNearBytes) return;
    const std::size_t bytes = std::max<std::size_t>(kFarBytes, folding.element_bytes);
    sum_far_.resize(bytes);
    values_far_.resize(team.doors.empty() ? 0 : bytes);
    sum_ = sum_far_;
  }

  /// Elements, at least one.
  std::uint64_t step() const noexcept { return sum_.size() / folding_.element_bytes; }

  Status reduce(const Movement& what, std::uint64_t begin_bytes, std::uint64_t count) {
    const std::uint64_t bytes = count * folding_.element_bytes;
    const std::uint64_t from = what.source.offset + begin_bytes;
    TOWPATH_TRY(world_.read(on(team_, 0, from), sum_.first(bytes)));
    for (std::uint32_t member = 1; member < size_of(team_); ++member) {
      TOWPATH_TRY(const std::byte* const values,
                  values_of(world_, on(team_, member, from), far(bytes)));
      folding_.fold(sum_.data(), values, count);
    }
    for (std::uint32_t member = 0; member < size_of(team_); ++member)
      TOWPATH_TRY(
          world_.write(on(team_, member, what.target.offset + begin_bytes), sum_.first(bytes)));
    return {};
  }

 private:
  ByteSpan far(std::uint64_t bytes) {
    return ByteSpan(values_far_).first(std::min<std::uint64_t>(bytes, values_far_.size()));
  }

  static constexpr std::size_t kNearBytes = 4096;       // stays in the cache
  static constexpr std::size_t kFarBytes = 256 * 1024;  // worth a round trip

  const World& world_;
  const TeamView& team_;
  const Folding& folding_;
  alignas(64) std::array<std::byte, kNearBytes> near_;
  Bytes sum_far_, values_far_;
  ByteSpan sum_ = near_;
};

/// As bytes; more than any buffer has when that would wrap.
std::uint64_t bytes_of(const Elements& elements) {
  return checked_multiply(elements.count, elements.width).value_or(~std::uint64_t{0});
}

Status check(const Movement& what, const Elements& elements) {
  const std::uint64_t in_target = what.target.size_bytes / elements.width;
  const std::uint64_t in_source = what.source.size_bytes / elements.width;
  if (elements.count <= in_target && elements.count <= in_source) return {};
  return error(Code::out_of_range,
               cat(elements.count, " elements, where the target has ", in_target,
                   " and the source ", in_source),
               "use larger buffers");
}

/// The call of a reduction, and what is checked of it.
Call call_of(CallKind kind, const Movement& what, const Folding& folding) {
  return {.kind = kind,
          .arguments = {what.target.offset, what.source.offset, folding.count,
                        folding.element_bytes * 256 + static_cast<std::uint64_t>(folding.op)}};
}

Status check(const Folding& folding) {
  if (folding.fold != nullptr) return {};
  return error(Code::invalid_argument, "bits of floating-point numbers",
               "reduce integers, or with another operation");
}

/// Into this PE's target alone: the elements from byte `from` on of the first `members` members,
/// zeros if those are none. The target may be the source: it is written when all have read.
Status reduce_for_me(const Team& team, const Movement& what, const Folding& folding,
                     const Call& call, std::uint64_t from, std::uint32_t members) {
  TOWPATH_TRY(TeamView* const view, team.find());
  World& world = *team.world();
  TOWPATH_TRY(gather(world, *view, {.call = call}));
  TOWPATH_TRY(check(folding));
  Bytes sum(folding.count * folding.element_bytes);
  Bytes far(view->doors.empty() ? 0 : sum.size());
  for (std::uint32_t member = 0; member < members; ++member) {
    TOWPATH_TRY(const std::byte* const values,
                values_of(world, on(*view, member, what.source.offset + from), far));
    if (member == 0)
      std::copy_n(values, sum.size(), sum.data());
    else
      folding.fold(sum.data(), values, folding.count);
  }
  TOWPATH_TRY(leave(world, *view, call.kind));
  std::ranges::copy(sum, world.heap_base() + what.target.offset);
  world.nudge(world.my_pe());
  return {};
}

/// Few bytes travel with the arrival itself: each member then has all of them, folds them in the
/// same order, and nobody waits a second time. The target may be the source.
Status reduce_notes(World& world, TeamView& team, const Movement& what, const Folding& folding,
                    const Call& call) {
  const std::uint64_t bytes = folding.count * folding.element_bytes;
  std::uint64_t mine = 0;
  std::memcpy(&mine, world.heap_base() + what.source.offset, bytes);
  TOWPATH_TRY(gather(world, team, {.call = call, .note = mine}));
  std::uint64_t sum = note_of(world, team, 0);
  for (std::uint32_t member = 1; member < size_of(team); ++member) {
    const std::uint64_t values = note_of(world, team, member);
    folding.fold(reinterpret_cast<std::byte*>(&sum), reinterpret_cast<const std::byte*>(&values),
                 folding.count);
  }
  std::memcpy(world.heap_base() + what.target.offset, &sum, bytes);
  world.nudge(world.my_pe());
  return {};
}

void nudge_all(const World& world, const TeamView& team) {
  for (const std::int32_t pe : team.members) world.nudge(static_cast<std::uint32_t>(pe));
}

}  // namespace

Status broadcast(const Team& team, const Movement& what, const Elements& elements, int root) {
  TOWPATH_TRY(TeamView* const view, team.find());
  World& world = *team.world();
  const std::uint64_t bytes = bytes_of(elements);
  TOWPATH_TRY(gather(world, *view,
                     {.call = {.kind = CallKind::broadcast,
                               .arguments = {what.target.offset, what.source.offset, bytes,
                                             static_cast<std::uint64_t>(root)}}}));
  TOWPATH_TRY(check(what, elements));
  if (root < 0 || root >= team.n_pes())
    return error(Code::out_of_range, cat("root ", root, " of a team of ", team.n_pes(), " PEs"));
  TOWPATH_TRY(world.read(on(*view, static_cast<std::uint32_t>(root), what.source.offset),
                         {world.heap_base() + what.target.offset, bytes}));
  world.nudge(world.my_pe());
  return leave(world, *view, CallKind::broadcast);
}

Result<std::uint64_t> collect(const Team& team, const Movement& what, const Elements& mine) {
  TOWPATH_TRY(TeamView* const view, team.find());
  World& world = *team.world();
  TOWPATH_TRY(gather(world, *view,
                     {.call = {.kind = CallKind::collect,
                               .arguments = {what.target.offset, what.source.offset, mine.width}},
                      .note = mine.count}));
  const std::uint64_t in_source = what.source.size_bytes / mine.width;
  const std::uint64_t in_target = what.target.size_bytes / mine.width;
  std::uint64_t total = 0;
  for (std::uint32_t member = 0; member < size_of(*view); ++member) {
    const std::uint64_t count = note_of(world, *view, member);
    if (count > in_source)
      return error(Code::out_of_range, cat("PE ", view->members[member], " collects ", count,
                                           " elements, where the source has ", in_source));
    total += count;
  }
  const bool fits = total <= in_target;
  std::uint64_t at = what.target.offset;
  for (std::uint32_t member = 0; fits && member < size_of(*view); ++member) {
    const std::uint64_t bytes = note_of(world, *view, member) * mine.width;
    TOWPATH_TRY(world.read(on(*view, member, what.source.offset), {world.heap_base() + at, bytes}));
    at += bytes;
  }
  world.nudge(world.my_pe());
  TOWPATH_TRY(leave(world, *view, CallKind::collect));
  if (!fits)
    return error(Code::out_of_range,
                 cat("the members collect ", total, " elements, the target has ", in_target),
                 "use a larger target");
  return total;
}

Status alltoall(const Team& team, const Movement& what, std::uint64_t share) {
  TOWPATH_TRY(TeamView* const view, team.find());
  World& world = *team.world();
  TOWPATH_TRY(gather(world, *view,
                     {.call = {.kind = CallKind::alltoall,
                               .arguments = {what.target.offset, what.source.offset, share}}}));
  const auto all = checked_multiply(share, size_of(*view));
  if (!all || *all > what.source.size_bytes || *all > what.target.size_bytes)
    return error(Code::out_of_range,
                 cat("a share of ", share, " bytes for each of ", size_of(*view),
                     " PEs, where the source has ", what.source.size_bytes,
                     " bytes and the target ", what.target.size_bytes),
                 "use larger buffers");
  const auto mine = static_cast<std::uint64_t>(view->my_index);
  for (std::uint32_t member = 0; member < size_of(*view); ++member)
    TOWPATH_TRY(world.read(on(*view, member, what.source.offset + mine * share),
                           {world.heap_base() + what.target.offset + member * share, share}));
  world.nudge(world.my_pe());
  return leave(world, *view, CallKind::alltoall);
}

Status reduce(const Team& team, const Movement& what, const Folding& folding) {
  TOWPATH_TRY(TeamView* const view, team.find());
  World& world = *team.world();
  const std::uint64_t width = folding.element_bytes;
  const Call call = call_of(CallKind::reduce, what, folding);
  const Status fits = check(what, {.count = folding.count, .width = width});
  if (fits.ok() && folding.fold != nullptr && folding.count <= sizeof(std::uint64_t) / width)
    return reduce_notes(world, *view, what, folding, call);
  TOWPATH_TRY(gather(world, *view, {.call = call}));
  TOWPATH_TRY(fits);
  TOWPATH_TRY(check(folding));
  // Each member computes its share of the elements and writes it to all. Nobody else reads or
  // writes those, so the target may be the source.
  const auto mine = static_cast<std::uint64_t>(view->my_index);
  const std::uint64_t end = folding.count * (mine + 1) / size_of(*view);
  Share share(world, *view, folding);
  for (std::uint64_t at = folding.count * mine / size_of(*view); at < end; at += share.step())
    TOWPATH_TRY(share.reduce(what, at * width, std::min(share.step(), end - at)));
  nudge_all(world, *view);
  return leave(world, *view, CallKind::reduce);
}

Status reduce_scatter(const Team& team, const Movement& what, const Folding& folding) {
  const std::uint64_t share = folding.count * folding.element_bytes;
  return reduce_for_me(team, what, folding, call_of(CallKind::reduce_scatter, what, folding),
                       static_cast<std::uint64_t>(std::max(team.my_pe(), 0)) * share,
                       static_cast<std::uint32_t>(std::max(team.n_pes(), 0)));
}

Status scan(const Team& team, const Movement& what, const Folding& folding, ScanKind kind) {
  const auto before = static_cast<std::uint32_t>(std::max(team.my_pe(), 0));
  const bool inclusive = kind == ScanKind::inclusive;
  const CallKind call = inclusive ? CallKind::scan : CallKind::exclusive_scan;
  return reduce_for_me(team, what, folding, call_of(call, what, folding), 0,
                       before + (inclusive ? 1 : 0));
}

}  // namespace towpath::shmem::internal
