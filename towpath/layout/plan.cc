#include <algorithm>
#include <string_view>
#include <utility>

#include <towpath/core/checked.h>
#include <towpath/core/text.h>
#include <towpath/layout/piece_box.h>
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
  std::sort(used.begin(), used.end(),
            [](const RegionExtent& a, const RegionExtent& b) { return a.address < b.address; });
  return used;
}

bool share_bytes(const Layout& a, const Layout& b) {
  if (!share_address_space(a, b)) return false;
  const auto ours = used_extents(a);
  const auto theirs = used_extents(b);
  for (std::size_t i = 0, j = 0; i < ours.size() && j < theirs.size();) {
    if (ours[i].address + ours[i].length <= theirs[j].address)
      ++i;
    else if (theirs[j].address + theirs[j].length <= ours[i].address)
      ++j;
    else
      return true;
  }
  return false;
}

bool same_places(const Layout& a, const Layout& b) {
  return a.geometry() == b.geometry() &&
         std::equal(
             a.regions().begin(), a.regions().end(), b.regions().begin(), b.regions().end(),
             [](const RegionExtent& x, const RegionExtent& y) { return x.address == y.address; });
}

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

/// What stays the same from one group of blocks to the next.
struct Copy {
  const Geometry& source;
  const Geometry& target;
  LayerRange layers;
  /// Layers are one more dimension where both sides keep them in one region; otherwise every layer
  /// has runs of its own.
  bool layers_are_strided;
  PieceBox block;  ///< of one block, of one layer or of all of them

  static Copy make(const Geometry& source, const Geometry& target, LayerRange layers);
  std::uint64_t layer_steps() const { return layers_are_strided ? 1 : layers.count; }
};

Copy Copy::make(const Geometry& source, const Geometry& target, LayerRange layers) {
  const bool strided = source.regions == RegionRule::single && target.regions == RegionRule::single;
  PieceBox block(source.token_bytes);
  block.add({source.page_size, source.token_stride, target.token_stride});
  block.add({source.outer_dim, source.outer_stride, target.outer_stride});
  block.add({strided ? layers.count : 1, source.layer_stride, target.layer_stride});
  block.fold();
  return {source, target, layers, strided, block};
}

/// A run like `at` for each point of `dimensions`, the first one running fastest.
void append_points(std::span<const PieceBox::Dimension> dimensions, CopyRun at,
                   std::vector<CopyRun>& out) {
  if (dimensions.empty()) {
    out.push_back(at);
    return;
  }
  const PieceBox::Dimension& outermost = dimensions.back();
  for (std::uint64_t i = 0; i < outermost.extent; ++i) {
    append_points(dimensions.first(dimensions.size() - 1), at, out);
    at.source_offset += outermost.source_stride;
    at.target_offset += outermost.target_stride;
  }
}

void append_group(const Copy& copy, const BlockGroup& group, std::vector<CopyRun>& out) {
  const Geometry& source = copy.source;
  const Geometry& target = copy.target;
  PieceBox box = copy.block;
  box.add({group.range.count, source.block_stride, target.block_stride});
  box.add({group.repeats, group.source_step * source.block_stride,
           group.target_step * target.block_stride});
  box.fold();
  const PieceBox::Dimension repeated = box.take_longest();
  for (std::uint64_t i = 0; i < copy.layer_steps(); ++i) {
    const std::uint64_t layer = copy.layers.first + i;
    const PagePlace from = source.place_unchecked({group.range.source_first, layer, 0});
    const PagePlace to = target.place_unchecked({group.range.target_first, layer, 0});
    const CopyRun run{.source_region = from.region,
                      .source_offset = from.offset,
                      .target_region = to.region,
                      .target_offset = to.offset,
                      .length = box.length(),
                      .count = repeated.extent,
                      .source_stride = repeated.source_stride,
                      .target_stride = repeated.target_stride};
    append_points(box.dimensions(), run, out);
  }
}

}  // namespace

Plan::Plan(std::vector<CopyRun> runs) : runs_(std::move(runs)) {
  for (const CopyRun& run : runs_) {
    bytes_ += run.length * run.count;
    pieces_ += run.count;
  }
}

Result<Plan> plan(const Layout& source, const Layout& target, std::span<const BlockRange> blocks,
                  LayerRange layers) {
  TOWPATH_TRY(check_shapes(source.config(), target.config()));
  TOWPATH_TRY(layers, resolve(layers, source.config().num_layers));
  TOWPATH_TRY(const BlockBounds bounds, bounds_of(source, target));
  TOWPATH_TRY(const std::vector<BlockGroup> groups, group_blocks(blocks, bounds));
  if (layers.count == 0) return Plan();
  const Copy copy = Copy::make(source.geometry(), target.geometry(), layers);
  std::vector<CopyRun> runs;
  runs.reserve(groups.size() * copy.layer_steps());
  for (const BlockGroup& group : groups) append_group(copy, group, runs);
  return Plan(std::move(runs));
}

Result<Plan> plan(const Layout& source, const Layout& target, std::span<const BlockPair> blocks,
                  LayerRange layers) {
  const std::vector<BlockRange> ranges = ranges_of(blocks);
  return plan(source, target, std::span<const BlockRange>(ranges), layers);
}

}  // namespace towpath::layout
