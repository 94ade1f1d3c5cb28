#include <algorithm>
#include <array>

#include <towpath/shmem/collectives.h>
#include <towpath/shmem/gather.h>

namespace towpath::shmem::internal {
namespace {

/// The same stretch on another member, by its index in the team.
std::byte* on(const World& world, const TeamView& team, std::uint32_t member,
              std::uint64_t offset) {
  const auto pe = static_cast<std::uint32_t>(team.members[member]);
  return world.heap_base() + offset + world.shift(pe);
}

std::uint32_t size_of(const TeamView& team) noexcept {
  return static_cast<std::uint32_t>(team.members.size());
}

/// Nobody changes what others still read: all leave together.
Status leave(World& world, TeamView& team, CallKind kind) {
  return gather(world, team, {.call = {.kind = kind}});
}

void nudge_all(const World& world, const TeamView& team) {
  for (const std::int32_t pe : team.members) world.nudge(static_cast<std::uint32_t>(pe));
}

}  // namespace

Status broadcast(const Team& team, const Movement& what, int root) {
  TOWPATH_TRY(TeamView* const view, team.find());
  World& world = *team.world();
  const std::uint64_t bytes = what.source.size_bytes;
  TOWPATH_TRY(gather(world, *view,
                     {.call = {.kind = CallKind::broadcast,
                               .arguments = {what.target.offset, what.source.offset, bytes,
                                             static_cast<std::uint64_t>(root)}}}));
  if (root < 0 || root >= team.n_pes())
    return error(Code::out_of_range, cat("root ", root, " of a team of ", team.n_pes(), " PEs"));
  copy_bytes(world.heap_base() + what.target.offset,
             on(world, *view, static_cast<std::uint32_t>(root), what.source.offset), bytes);
  world.nudge(world.my_pe());
  return leave(world, *view, CallKind::broadcast);
}

Result<std::uint64_t> collect(const Team& team, const Movement& what, std::uint64_t element_bytes) {
  TOWPATH_TRY(TeamView* const view, team.find());
  World& world = *team.world();
  TOWPATH_TRY(
      gather(world, *view,
             {.call = {.kind = CallKind::collect,
                       .arguments = {what.target.offset, what.source.offset, element_bytes}},
              .note = what.source.size_bytes}));
  std::uint64_t total = 0;
  for (std::uint32_t member = 0; member < size_of(*view); ++member)
    total += note_of(world, *view, member);
  const bool fits = total <= what.target.size_bytes;
  std::uint64_t at = what.target.offset;
  for (std::uint32_t member = 0; fits && member < size_of(*view); ++member) {
    const std::uint64_t bytes = note_of(world, *view, member);
    copy_bytes(world.heap_base() + at, on(world, *view, member, what.source.offset), bytes);
    at += bytes;
  }
  world.nudge(world.my_pe());
  TOWPATH_TRY(leave(world, *view, CallKind::collect));
  if (!fits)
    return error(Code::out_of_range,
                 cat("the members collect ", total / element_bytes, " elements, the target has ",
                     what.target.size_bytes / element_bytes),
                 "use a larger target");
  return total / element_bytes;
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
    copy_bytes(world.heap_base() + what.target.offset + member * share,
               on(world, *view, member, what.source.offset) + mine * share, share);
  world.nudge(world.my_pe());
  return leave(world, *view, CallKind::alltoall);
}

Status reduce(const Team& team, const Movement& what, const Folding& folding) {
  TOWPATH_TRY(TeamView* const view, team.find());
  World& world = *team.world();
  const std::uint64_t width = folding.element_bytes;
  const Call call{.kind = CallKind::reduce,
                  .arguments = {what.target.offset, what.source.offset, folding.count,
                                width * 256 + static_cast<std::uint64_t>(folding.op)}};
  TOWPATH_TRY(gather(world, *view, {.call = call}));
  if (folding.fold == nullptr)
    return error(Code::invalid_argument, "bits of floating-point numbers",
                 "reduce integers, or with another operation");
  // Each member computes its share of the elements and writes it to all. Nobody else reads or
  // writes those, so the target may be the source.
  alignas(64) std::array<std::byte, 4096> sum;
  const auto mine = static_cast<std::uint64_t>(view->my_index);
  const std::uint64_t end = folding.count * (mine + 1) / size_of(*view);
  const std::uint64_t step = sum.size() / width;
  for (std::uint64_t at = folding.count * mine / size_of(*view); at < end; at += step) {
    const std::uint64_t count = std::min(step, end - at);
    std::memcpy(sum.data(), on(world, *view, 0, what.source.offset) + at * width, count * width);
    for (std::uint32_t member = 1; member < size_of(*view); ++member)
      folding.fold(sum.data(), on(world, *view, member, what.source.offset) + at * width, count);
    for (std::uint32_t member = 0; member < size_of(*view); ++member)
      std::memcpy(on(world, *view, member, what.target.offset) + at * width, sum.data(),
                  count * width);
  }
  nudge_all(world, *view);
  return leave(world, *view, CallKind::reduce);
}

}  // namespace towpath::shmem::internal
