// Memory of a cache for tests of plans: one cell per element, so that every element can hold a
// number of its own, and any two that were swapped, shifted or repeated show. For tests only.
// Thread: none of its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/layout/box_plan.h>

namespace towpath::layout::testing {

using Random = std::mt19937_64;
inline constexpr std::uint32_t kUntouched = UINT32_MAX;

inline std::uint64_t between(Random& random, std::uint64_t least, std::uint64_t most) {
  return least + random() % (most - least + 1);
}

/// An element, by its indices within a view.
struct Element {
  std::uint64_t block = 0, layer = 0, outer = 0, token = 0, head = 0, dim = 0;
};

struct CellMemory {
  TensorView view;
  std::vector<std::vector<std::uint32_t>> regions;

  /// The definition of a view, written out.
  std::uint32_t& cell(const Element& at) {
    const TensorView::Parts& parts = view.parts();
    const std::uint64_t indices[] = {at.block, at.layer, at.outer, at.token, at.head, at.dim};
    std::uint64_t region = parts.region;
    std::uint64_t offset = parts.offset;
    for (std::size_t i = 0; i < kAxes.size(); ++i) {
      region += indices[i] * parts.axes.shapes[i].region_step;
      offset += indices[i] * parts.axes.shapes[i].stride;
    }
    return regions.at(region).at(offset);
  }
};

/// Calls `visit(Element)` for each element but for the block, which is 0.
template <class Visit>
void for_each_in_block(const TensorView& view, Visit visit) {
  for (std::uint64_t l = 0; l < view[Axis::layer].extent; ++l)
    for (std::uint64_t o = 0; o < view[Axis::outer].extent; ++o)
      for (std::uint64_t t = 0; t < view[Axis::token].extent; ++t)
        for (std::uint64_t h = 0; h < view[Axis::head].extent; ++h)
          for (std::uint64_t d = 0; d < view[Axis::dim].extent; ++d)
            visit(Element{0, l, o, t, h, d});
}

/// What a plan for this block and these layers has to do, written out.
inline void copy_by_elements(CellMemory& source, CellMemory& target, BlockPair block,
                             LayerRange layers = LayerRange::all()) {
  for_each_in_block(source.view, [&](Element at) {
    if (at.layer < layers.first || at.layer - layers.first >= layers.count) return;
    Element to = at;
    at.block = block.source;
    to.block = block.target;
    target.cell(to) = source.cell(at);
  });
}

/// A view of these extents with its axes in random order, padding, and regions by axis or not.
inline CellMemory random_memory(Random& random, Axes extents, unsigned bits) {
  std::vector<Axis> order = {Axis::block, Axis::layer, Axis::outer, Axis::token, Axis::head};
  std::ranges::shuffle(order, random);
  if (bits >= 8 && random() % 4 == 0)
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(random() % 6), Axis::dim);
  else
    order.insert(order.begin(), Axis::dim);
  TensorView::Parts parts{.element_bits = bits, .axes = extents};
  const std::uint64_t rule = random() % 5;  // which axes have regions of their own
  const auto has_regions = [&](Axis axis) {
    return (axis == Axis::block && rule == 1) ||
           (axis == Axis::layer && (rule == 2 || rule == 3)) || (axis == Axis::outer && rule == 3);
  };
  std::uint64_t elements = 1;
  std::uint64_t num_regions = 1;
  const std::uint64_t unit = bits < 8 ? 8 / bits : 1;
  for (const Axis axis : order) {
    AxisShape& shape = parts.axes[axis];
    if (has_regions(axis)) {
      shape.region_step = num_regions;
      num_regions *= shape.extent;
    } else {
      shape.stride = elements;
      elements *= shape.extent;
      if (random() % 4 == 0) elements += unit * between(random, 1, 3);
    }
  }
  parts.offset = unit * between(random, 0, 2);
  const std::vector<std::uint64_t> sizes(num_regions, (parts.offset + elements) * bits / 8 + 1);
  std::vector<std::vector<std::uint32_t>> cells(
      num_regions, std::vector<std::uint32_t>(sizes.front() * 8 / bits, kUntouched));
  auto view = TensorView::make(parts, sizes);
  EXPECT_TRUE(view.ok()) << view.status().to_string();
  return {*view, std::move(cells)};
}

inline void fill_uniquely(CellMemory& memory) {
  std::uint32_t next = 0;
  for (auto& region : memory.regions)
    for (std::uint32_t& cell : region) cell = next++;
}

inline void run_plan(const Plan& plan, unsigned bits, const CellMemory& source,
                     CellMemory& target) {
  const auto cells = [&](std::uint64_t bytes) { return bytes * 8 / bits; };
  for (const CopyRun& run : plan.runs())
    for (std::uint64_t i = 0; i < run.count; ++i)
      for (std::uint64_t c = 0; c < cells(run.length); ++c)
        target.regions.at(run.target_region)
            .at(cells(run.target_offset + i * run.target_stride) + c) =
            source.regions.at(run.source_region)
                .at(cells(run.source_offset + i * run.source_stride) + c);
}

}  // namespace towpath::layout::testing
