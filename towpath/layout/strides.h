// Geometry: where every page and token of a KV cache lies, as strides.
//
// Both families of layouts are values of this one struct, and copy plans (plan.h) look at nothing
// else, by way of TensorView. A = config.alignment, page = page_size * inner_dim *
// dtype_width_bytes:
//
//   kind                        regions  outer stride       layer stride  block stride
//   fully_contiguous                  1  page               page * outer  up(layer * layers, A)
//   layer_separate_block_first   layers  page               -             up(page * outer, A)
//   layer_separate_block_second  layers  block * num_blocks -             up(page, A)
//   block_separate              blocks  page               page * outer  -
//   strided                     as the axes say, and all strides too
//
// Alignment moves exactly one stride, that of a block within its region, up to a multiple of A;
// with A = 1 nothing moves. Blocks with a region each have no such stride. A region holds all its
// strides whole, so that padding behind the last block belongs to it. Layout (layout.h) asks
// regions to begin at a multiple of A, so every block of the first two kinds, and every page of the
// third, begins at one.
//
// A strided layout is for what none of these says: padding between pages, tokens or heads, axes in
// another order, regions by another axis than layers or blocks. Its Axes (tensor_view.h) say where
// every element lies, alignment moves nothing, a region needs no more than its last element, and
// its pages need not lie together.
//
// Invariants of a made Geometry: every page lies inside its region, no two overlap, and a region is
// at most kMaxRegionBytes, so sums of two offsets never wrap.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/result.h>
#include <towpath/layout/layout_config.h>
#include <towpath/layout/tensor_view.h>

namespace towpath::layout {

/// Where the blocks stand in a layer's region: [blocks, outer, page] or [outer, blocks, page].
enum class BlockDimension : std::uint8_t { first = 0, second = 1 };

/// The numbers travel in descriptors: never renumber, only append.
enum class LayoutKind : std::uint8_t {
  fully_contiguous = 0,             ///< one region [blocks, layers, outer, page]
  layer_separate_block_first = 1,   ///< a region per layer [blocks, outer, page]
  layer_separate_block_second = 2,  ///< a region per layer [outer, blocks, page]
  block_separate = 3,               ///< a region per block [layers, outer, page]: an object each
  strided = 4,                      ///< any strides, in as many regions as its axes name
};

constexpr LayoutKind layer_separate(BlockDimension dimension) noexcept {
  return dimension == BlockDimension::first ? LayoutKind::layer_separate_block_first
                                            : LayoutKind::layer_separate_block_second;
}
/// "fully_contiguous", ...; "unknown" for a number that is none.
std::string_view name_of(LayoutKind kind) noexcept;

inline constexpr std::uint64_t kMaxRegions = 65536;
inline constexpr std::uint64_t kMaxRegionBytes = INT64_MAX;  // what a file can hold

/// Names one page.
struct PageIndex {
  std::uint64_t block = 0;
  std::uint64_t layer = 0;
  std::uint64_t outer = 0;
};

/// Where a page begins.
struct PagePlace {
  std::uint64_t region = 0;  ///< index
  std::uint64_t offset = 0;  ///< bytes from the region's start

  friend bool operator==(const PagePlace&, const PagePlace&) = default;
};

enum class RegionRule : std::uint8_t { single, per_layer, per_block, by_axes };

/// A config's axes with its extents and no strides yet. Heads are an axis where num_heads is given;
/// else they are one, with all elements of a token as its dims. `config` must be valid.
Axes extents_of(const LayoutConfig& config);

struct Geometry {
  std::uint64_t num_blocks = 0;
  std::uint64_t num_layers = 0;
  std::uint64_t outer_dim = 0;
  std::uint64_t page_size = 0;  ///< tokens

  // Bytes from one start to the next. Of a strided layout all are 0: its axes say.
  std::uint64_t block_stride = 0;  ///< 0 where every block has its own region
  std::uint64_t layer_stride = 0;  ///< 0 where every layer has its own region
  std::uint64_t outer_stride = 0;
  std::uint64_t token_stride = 0;
  std::uint64_t token_bytes = 0;  ///< what lies together at a token

  RegionRule regions = RegionRule::single;
  std::uint64_t num_regions = 1;
  std::uint64_t region_bytes = 0;  ///< what each region must hold at least

  /// Errors: invalid_argument (as LayoutConfig::validate), out_of_range (a region would be larger
  /// than kMaxRegionBytes, or there would be more than kMaxRegions). Of `axes`: invalid_argument
  /// (some where the kind is not strided; other extents than the config's; a format but nhd;
  /// elements that share bytes, or strides that interleave, which may), out_of_range (a sum that
  /// wraps).
  static Result<Geometry> make(const LayoutConfig& config, LayoutKind kind, const Axes& axes = {});

  std::uint64_t page_bytes() const noexcept { return page_size * token_bytes; }
  /// Bytes of each region, in order: what an allocator must provide.
  std::vector<std::uint64_t> required_sizes() const;

  // Of pages; not for a strided layout.

  /// Errors: out_of_range ("Block ID 7 out of range (count: 2)"; the same for Layer and Outer).
  Result<PagePlace> place(PageIndex page) const;
  /// As place(), for an index that is known to be in range.
  PagePlace place_unchecked(PageIndex page) const noexcept;

  friend bool operator==(const Geometry&, const Geometry&) = default;
};

/// "1 regions of 768 bytes; strides: block 384, layer 128, outer 64, token 16 (16 bytes)".
std::string to_string(const Geometry& geometry);

}  // namespace towpath::layout
