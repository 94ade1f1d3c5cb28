#include <algorithm>
#include <string_view>

#include <towpath/core/format.h>
#include <towpath/layout/layer_groups.h>

namespace towpath::layout {
namespace {

Result<const LayerGroup*> find(std::span<const LayerGroup> groups, std::string_view side,
                               const std::string& name) {
  const auto found = std::ranges::find(groups, name, &LayerGroup::name);
  if (found == groups.end())
    return error(Code::not_found, cat("the ", side, " has no group '", printable(name), "'"),
                 "name groups alike on both sides");
  const std::uint64_t layers = (*found).view[Axis::layer].extent;
  if (found->layers.size() != layers)
    return error(Code::invalid_argument,
                 cat("group '", printable(name), "' of the ", side, " names ", found->layers.size(),
                     " layers, its view has ", layers),
                 "name the layers of the model in the order of the view");
  return &*found;
}

Status check_layers(const LayerGroup& source, const LayerGroup& target) {
  const std::uint64_t source_first = source.view[Axis::layer].first;
  const std::uint64_t target_first = target.view[Axis::layer].first;
  const IndexRange both = common(source.view.range(Axis::layer), target.view.range(Axis::layer));
  for (std::uint64_t i = both.first; i < both.first + both.count; ++i) {
    const std::uint64_t from = source.layers[i - source_first];
    const std::uint64_t to = target.layers[i - target_first];
    if (from != to)
      return error(Code::invalid_argument,
                   cat("position ", i, " of group '", printable(source.name), "' is layer ", from,
                       " of the model in the source and ", to, " in the target"),
                   "list the layers of a group in one order on both sides");
  }
  return {};
}

/// Cut to common layers, outers, heads and dims; tokens stay whole, since blocks may differ.
Status cut_to_common(TensorView& source, TensorView& target) {
  for (const Axis axis : {Axis::layer, Axis::outer, Axis::head, Axis::dim}) {
    const IndexRange range = common(source.range(axis), target.range(axis));
    if (range.count == 0)
      return error(Code::not_found, cat("no ", name_of(axis), " in common"),
                   "this pair of shards has nothing to copy");
    TOWPATH_TRY(source, source.slice(axis, range));
    TOWPATH_TRY(target, target.slice(axis, range));
  }
  return {};
}

Result<BoxPlan> plan_group(std::span<const LayerGroup> sources, std::span<const LayerGroup> targets,
                           const GroupCopy& copy) {
  TOWPATH_TRY(const LayerGroup* source, find(sources, "source", copy.name));
  TOWPATH_TRY(const LayerGroup* target, find(targets, "target", copy.name));
  TOWPATH_TRY(check_layers(*source, *target));
  TensorView from = source->view;
  TensorView to = target->view;
  TOWPATH_TRY(cut_to_common(from, to));
  return plan_tokens(from, to, copy.tokens);
}

}  // namespace

Result<std::vector<GroupPlan>> plan_layer_groups(std::span<const LayerGroup> source,
                                                 std::span<const LayerGroup> target,
                                                 std::span<const GroupCopy> copies) {
  std::vector<GroupPlan> plans;
  for (const GroupCopy& copy : copies) {
    auto plan = plan_group(source, target, copy);
    if (!plan.ok())
      return error(plan.code(), cat("group '", printable(copy.name), "' cannot be copied"),
                   std::string(plan.status().hint()))
          .because(plan.status());
    plans.push_back({copy.name, *std::move(plan)});
  }
  return plans;
}

}  // namespace towpath::layout
