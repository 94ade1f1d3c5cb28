// LayerGroups: a cache whose layers are not all alike, as groups of layers that are.
//
//   name       layers (of the model)    view
//   "full"     5 11 17                  blocks for the whole context
//   "window"   0-4 6-10 12-16 18        few blocks: only the last 1024 tokens are kept
//
// Each group has tables of its own, since a window drops its oldest blocks. Groups of two sides are
// matched by name and their layers by position: never as sets, since a group that is merely of the
// same size is not the same layers.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <towpath/core/result.h>
#include <towpath/layout/box_plan.h>
#include <towpath/layout/sequence_plan.h>
#include <towpath/layout/tensor_view.h>

namespace towpath::layout {

struct LayerGroup {
  std::string name;
  std::vector<std::uint64_t> layers;  ///< of the model; as many as the view's layer axis has
  TensorView view;
};

/// What to copy of the group `name`.
struct GroupCopy {
  std::string name;
  TokenCopy tokens;
};

struct GroupPlan {
  std::string name;
  BoxPlan plan;
};

/// A plan per copy, in their order. Source and target views are cut to the layers and heads that
/// both have.
/// Errors: not_found (a group that one side does not have), invalid_argument (layers that differ by
/// position, or are not as many as the view has), and those of plan_tokens(); with the group.
Result<std::vector<GroupPlan>> plan_layer_groups(std::span<const LayerGroup> source,
                                                 std::span<const LayerGroup> target,
                                                 std::span<const GroupCopy> copies);

}  // namespace towpath::layout
