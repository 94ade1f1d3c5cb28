#include <climits>
#include <optional>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/layout/strides.h>

namespace towpath::layout {
namespace {

using Bytes64 = std::optional<std::uint64_t>;

// Products and round-ups that may already have failed: one check at the end is enough.
Bytes64 times(Bytes64 bytes, std::uint64_t count) {
  return bytes ? checked_multiply(*bytes, count) : std::nullopt;
}
Bytes64 up(Bytes64 bytes, std::uint64_t alignment) {
  return bytes ? align_up(*bytes, alignment) : std::nullopt;
}

struct Strides {
  Bytes64 block, layer, outer, region;
};

Strides strides_of(const LayoutConfig& config, LayoutKind kind, std::uint64_t page) {
  Strides strides{.block = {}, .layer = 0, .outer = page, .region = {}};
  switch (kind) {
    case LayoutKind::fully_contiguous:
      strides.layer = times(page, config.outer_dim);
      strides.block = up(times(strides.layer, config.num_layers), config.alignment);
      strides.region = times(strides.block, config.num_blocks);
      break;
    case LayoutKind::layer_separate_block_first:
      strides.block = up(times(page, config.outer_dim), config.alignment);
      strides.region = times(strides.block, config.num_blocks);
      break;
    case LayoutKind::layer_separate_block_second:
      strides.block = up(page, config.alignment);
      strides.outer = times(strides.block, config.num_blocks);
      strides.region = times(strides.outer, config.outer_dim);
      break;
    case LayoutKind::block_separate:
      strides.layer = times(page, config.outer_dim);
      strides.block = 0;
      strides.region = times(strides.layer, config.num_layers);
      break;
    case LayoutKind::strided: break;  // as its axes say: strided_geometry()
  }
  return strides;
}

RegionRule rule_of(LayoutKind kind) {
  if (kind == LayoutKind::fully_contiguous) return RegionRule::single;
  if (kind == LayoutKind::strided) return RegionRule::by_axes;
  return kind == LayoutKind::block_separate ? RegionRule::per_block : RegionRule::per_layer;
}

std::uint64_t count_of(RegionRule rule, const LayoutConfig& config) {
  if (rule == RegionRule::single) return 1;
  return rule == RegionRule::per_layer ? config.num_layers : config.num_blocks;
}

Status check_extents(const Axes& axes, const LayoutConfig& config) {
  const Axes expected = extents_of(config);
  for (const Axis axis : kAxes)
    if (axes[axis].extent != expected[axis].extent || axes[axis].first != 0)
      return error(Code::invalid_argument,
                   cat("axes_must_have_the_extents_of_the_config: ", name_of(axis), " has ",
                       axes[axis].extent, " from ", axes[axis].first, ", the config has ",
                       expected[axis].extent),
                   "begin with extents_of(config); heads are an axis where num_heads is given");
  return {};
}

Result<Geometry> strided_geometry(const LayoutConfig& config, const Axes& axes) {
  if (config.format != BlockFormat::nhd)
    return error(Code::invalid_argument,
                 cat("strided_layout_takes_no_format: the format is ", name_of(config.format)),
                 "leave the format nhd: the strides of the axes say the order");
  TOWPATH_TRY(check_extents(axes, config));
  const TensorView::Parts parts{
      .element_bits = static_cast<unsigned>(config.dtype_width_bytes * CHAR_BIT), .axes = axes};
  TOWPATH_TRY(const Reach reach, TensorView::reach(parts));
  if (reach.last_region >= kMaxRegions)
    return error(Code::out_of_range,
                 cat("the axes name region ", reach.last_region, "; at most ", kMaxRegions,
                     " regions are possible"),
                 "use strides within fewer regions");
  Geometry geometry{.num_blocks = config.num_blocks,
                    .num_layers = config.num_layers,
                    .outer_dim = config.outer_dim,
                    .page_size = config.page_size,
                    .regions = RegionRule::by_axes,
                    .num_regions = reach.last_region + 1,
                    .region_bytes = reach.region_bytes};
  TOWPATH_TRY(const TensorView view, TensorView::make(parts, geometry.required_sizes()));
  if (view.is_apart()) return geometry;
  return error(
      Code::invalid_argument,
      cat("strides_must_keep_elements_apart: two elements may share bytes (", to_string(view), ")"),
      "let each stride be larger than all that those below it reach, and give every axis "
      "of several indices a stride or a region step");
}

Status out_of_range(std::string_view what, std::uint64_t id, std::uint64_t count) {
  return error(Code::out_of_range, cat(what, " ID ", id, " out of range (count: ", count, ")"),
               "use an ID below the count");
}

}  // namespace

std::string_view name_of(LayoutKind kind) noexcept {
  switch (kind) {
    case LayoutKind::fully_contiguous: return "fully_contiguous";
    case LayoutKind::layer_separate_block_first: return "layer_separate_block_first";
    case LayoutKind::layer_separate_block_second: return "layer_separate_block_second";
    case LayoutKind::block_separate: return "block_separate";
    case LayoutKind::strided: return "strided";
  }
  return "unknown";
}

Axes extents_of(const LayoutConfig& config) {
  const std::uint64_t heads = config.num_heads.value_or(1);
  Axes axes;
  axes[Axis::block].extent = config.num_blocks;
  axes[Axis::layer].extent = config.num_layers;
  axes[Axis::outer].extent = config.outer_dim;
  axes[Axis::token].extent = config.page_size;
  axes[Axis::head].extent = heads;
  axes[Axis::dim].extent = config.inner_dim / heads;
  return axes;
}

Result<Geometry> Geometry::make(const LayoutConfig& config, LayoutKind kind, const Axes& axes) {
  TOWPATH_TRY(config.validate());
  if (kind == LayoutKind::strided) return strided_geometry(config, axes);
  if (axes != Axes{})
    return error(Code::invalid_argument, cat("a ", name_of(kind), " layout with axes of its own"),
                 "use the kind strided: the strides of the others follow from the config");
  if (config.format == BlockFormat::universal && rule_of(kind) == RegionRule::per_layer)
    return error(
        Code::invalid_argument,
        cat("universal_needs_all_layers_of_a_block_together: ", name_of(kind), " keeps them apart"),
        "use fully_contiguous or block_separate, or the format nhd or hnd");
  TOWPATH_TRY(const std::uint64_t token, config.token_bytes());
  TOWPATH_TRY(const std::uint64_t page, config.page_bytes());
  const Strides strides = strides_of(config, kind, page);
  // The region is the product of everything else: when it fits, so does every stride.
  if (!strides.region || *strides.region > kMaxRegionBytes)
    return error(Code::out_of_range,
                 cat("allocation size overflow during layout computation: a region of ",
                     to_string(config), " does not fit ", kMaxRegionBytes, " bytes"),
                 "use fewer blocks, or a smaller alignment");
  Geometry geometry{
      .num_blocks = config.num_blocks,
      .num_layers = config.num_layers,
      .outer_dim = config.outer_dim,
      .page_size = config.page_size,
      .block_stride = *strides.block,
      .layer_stride = *strides.layer,
      .outer_stride = *strides.outer,
      .token_stride = token,
      .token_bytes = token,
      .regions = rule_of(kind),
      .num_regions = count_of(rule_of(kind), config),
      .region_bytes = *strides.region,
  };
  if (geometry.num_regions > kMaxRegions)
    return error(Code::out_of_range,
                 cat(name_of(kind), " needs ", geometry.num_regions, " regions, one per ",
                     geometry.regions == RegionRule::per_layer ? "layer" : "block", "; at most ",
                     kMaxRegions, " are possible"),
                 "use a fully_contiguous layout");
  return geometry;
}

std::vector<std::uint64_t> Geometry::required_sizes() const {
  return std::vector<std::uint64_t>(num_regions, region_bytes);
}

Result<PagePlace> Geometry::place(PageIndex page) const {
  if (page.block >= num_blocks) return out_of_range("Block", page.block, num_blocks);
  if (page.layer >= num_layers) return out_of_range("Layer", page.layer, num_layers);
  if (page.outer >= outer_dim) return out_of_range("Outer", page.outer, outer_dim);
  return place_unchecked(page);
}

PagePlace Geometry::place_unchecked(PageIndex page) const noexcept {
  const std::uint64_t of_block = regions == RegionRule::per_block ? page.block : 0;
  return {
      .region = regions == RegionRule::per_layer ? page.layer : of_block,
      .offset = page.block * block_stride + page.layer * layer_stride + page.outer * outer_stride};
}

std::string to_string(const Geometry& geometry) {
  if (geometry.regions == RegionRule::by_axes)
    return cat(geometry.num_regions, " regions of ", geometry.region_bytes,
               " bytes; strides: as the axes say");
  return cat(geometry.num_regions, " regions of ", geometry.region_bytes, " bytes; strides: block ",
             geometry.block_stride, ", layer ", geometry.layer_stride, ", outer ",
             geometry.outer_stride, ", token ", geometry.token_stride, " (", geometry.token_bytes,
             " bytes)");
}

}  // namespace towpath::layout
