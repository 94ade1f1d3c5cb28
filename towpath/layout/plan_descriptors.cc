#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/layout/plan.h>

namespace towpath::layout {
namespace {

struct SideRun {
  std::uint64_t region, offset, length, count, stride;
};

/// Bytes from the first to behind the last piece, or nothing where that would wrap.
std::optional<std::uint64_t> reach_of(const SideRun& run) {
  const auto steps = checked_multiply(run.stride, run.count - 1);
  return steps ? checked_add(*steps, run.length) : std::nullopt;
}

Status add_run(DescriptorList& list, const Layout& layout, const SideRun& run) {
  const auto regions = layout.regions();
  const auto reach = run.count > 0 ? reach_of(run) : std::nullopt;
  if (run.region >= regions.size() || !reach ||
      !range_fits(run.offset, *reach, regions[run.region].length))
    return error(Code::out_of_range,
                 cat("a run at region ", run.region, " +", run.offset, " of ", run.count,
                     " pieces of ", run.length, " bytes lies outside of ", to_string(layout)),
                 "describe a plan with the layouts that it was made of");
  return list.add(
      StridedDescriptor{.address = regions[run.region].address + run.offset,
                        .length = run.length,
                        .stride = run.stride,
                        .count = run.count,
                        .device_id = device_id_of(layout.location(), regions[run.region])});
}

}  // namespace

Result<PlanDescriptors> describe(const Plan& plan, const Layout& source, const Layout& target) {
  PlanDescriptors lists{DescriptorList(source.location().kind),
                        DescriptorList(target.location().kind)};
  lists.source.reserve(plan.runs().size());
  lists.target.reserve(plan.runs().size());
  for (const CopyRun& run : plan.runs()) {
    TOWPATH_TRY(
        add_run(lists.source, source,
                {run.source_region, run.source_offset, run.length, run.count, run.source_stride}));
    TOWPATH_TRY(
        add_run(lists.target, target,
                {run.target_region, run.target_offset, run.length, run.count, run.target_stride}));
  }
  return lists;
}

}  // namespace towpath::layout
