#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/layout/box_plan.h>
#include <towpath/layout/plan.h>

namespace towpath::layout {
namespace {

Status check_shapes(const LayoutConfig& source, const LayoutConfig& target) {
  struct Field {
    std::string_view name;
    std::uint64_t source, target;
  };
  const Field fields[] = {
      {"num_layers", source.num_layers, target.num_layers},
      {"outer_dim", source.outer_dim, target.outer_dim},
      {"page_size", source.page_size, target.page_size},
      {"inner_dim", source.inner_dim, target.inner_dim},
      {"dtype_width_bytes", source.dtype_width_bytes, target.dtype_width_bytes},
  };
  for (const Field& field : fields) {
    if (field.source != field.target)
      return error(Code::invalid_argument,
                   cat("layouts of different shape: ", field.name, " is ", field.source,
                       " in the source (", to_string(source), ") and ", field.target,
                       " in the target (", to_string(target), ")"),
                   "only the number of blocks, the kind and the alignment may differ");
  }
  return {};
}

Result<LayerRange> resolve(LayerRange layers, std::uint64_t num_layers) {
  if (layers == LayerRange::all()) return LayerRange{0, num_layers};
  if (range_fits(layers.first, layers.count, num_layers)) return layers;
  return error(
      Code::out_of_range,
      cat("Layer ID ", std::max(layers.first, num_layers), " out of range (count: ", num_layers,
          "): ", layers.count, " layers from ", layers.first, " were asked for"),
      "use LayerRange::all(), or fewer layers");
}

std::vector<RegionExtent> used_extents(const Layout& layout) {
  std::vector<RegionExtent> used(layout.regions().begin(), layout.regions().end());
  for (RegionExtent& extent : used) extent.length = layout.geometry().region_bytes;
  std::sort(used.begin(), used.end(), [](const RegionExtent& a, const RegionExtent& b) {
    return std::tie(a.device_id, a.address) < std::tie(b.device_id, b.address);
  });
  return used;
}

bool ends_before(const RegionExtent& a, const RegionExtent& b) {
  return a.device_id < b.device_id ||
         (a.device_id == b.device_id && a.address + a.length <= b.address);
}

bool share_bytes(const Layout& a, const Layout& b) {
  if (!share_address_space(a, b)) return false;
  const auto ours = used_extents(a);
  const auto theirs = used_extents(b);
  for (std::size_t i = 0, j = 0; i < ours.size() && j < theirs.size();) {
    if (ends_before(ours[i], theirs[j]))
      ++i;
    else if (ends_before(theirs[j], ours[i]))
      ++j;
    else
      return true;
  }
  return false;
}

/// Where heads follow each other, how many there are moves no byte.
bool same_axes(const TensorView& a, const TensorView& b) {
  if (a == b) return true;
  const auto ours = a.with_heads_joined();
  const auto theirs = b.with_heads_joined();
  return ours.ok() && theirs.ok() && *ours == *theirs;
}

bool same_places(const Layout& a, const Layout& b) {
  return same_axes(a.view(), b.view()) &&
         std::equal(a.regions().begin(), a.regions().end(), b.regions().begin(), b.regions().end(),
                    [](const RegionExtent& x, const RegionExtent& y) {
                      return x.address == y.address && x.device_id == y.device_id;
                    });
}

/// Both as axes, cut to `layers`; heads are distinguished where both sides say how many they have.
Result<Overlap> views_of(const Layout& source, const Layout& target, LayerRange layers) {
  Overlap views{source.view(), target.view()};
  if (views.source[Axis::head].extent != views.target[Axis::head].extent) {
    TOWPATH_TRY(views.source, views.source.with_heads_joined());
    TOWPATH_TRY(views.target, views.target.with_heads_joined());
  }
  TOWPATH_TRY(views.source, views.source.slice(Axis::layer, {layers.first, layers.count}));
  TOWPATH_TRY(views.target, views.target.slice(Axis::layer, {layers.first, layers.count}));
  return views;
}

}  // namespace

Result<BlockBounds> bounds_of(const Layout& source, const Layout& target) {
  BlockBounds bounds{.source_blocks = source.config().num_blocks,
                     .target_blocks = target.config().num_blocks,
                     .same_blocks = false};
  if (!share_bytes(source, target)) return bounds;
  bounds.same_blocks = same_places(source, target);
  if (bounds.same_blocks) return bounds;
  return error(Code::invalid_argument,
               cat("source (", to_string(source), ") and target (", to_string(target),
                   ") are different layouts over the same bytes"),
               "copy by way of memory that neither layout uses");
}

Plan::Plan(std::vector<CopyRun> runs) : runs_(std::move(runs)) {
  for (const CopyRun& run : runs_) {
    bytes_ += run.length * run.count;
    pieces_ += run.count;
  }
}

Result<BoxPlan> plan_boxes(const Layout& source, const Layout& target,
                           std::span<const BlockRange> blocks, LayerRange layers) {
  TOWPATH_TRY(check_shapes(source.config(), target.config()));
  TOWPATH_TRY(layers, resolve(layers, source.config().num_layers));
  TOWPATH_TRY(const BlockBounds bounds, bounds_of(source, target));
  TOWPATH_TRY(const std::vector<BlockGroup> groups, group_blocks(blocks, bounds));
  if (layers.count == 0) return BoxPlan();
  TOWPATH_TRY(const Overlap views, views_of(source, target, layers));
  return plan_groups_of_blocks(views.source, views.target, groups);
}

Result<Plan> plan(const Layout& source, const Layout& target, std::span<const BlockRange> blocks,
                  LayerRange layers) {
  TOWPATH_TRY(const BoxPlan boxes, plan_boxes(source, target, blocks, layers));
  return to_runs(boxes);
}

Result<Plan> plan(const Layout& source, const Layout& target, std::span<const BlockPair> blocks,
                  LayerRange layers) {
  const std::vector<BlockRange> ranges = ranges_of(blocks);
  return plan(source, target, std::span<const BlockRange>(ranges), layers);
}

}  // namespace towpath::layout
