// plan_boxes() against a copy element by element, over random views of any strides.
#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/layout/testing/cell_memory.h>

namespace towpath::layout {
namespace {

using testing::between;
using testing::CellMemory;
using testing::Random;

constexpr std::uint64_t kFirstBoxSeed = 20270101;
constexpr std::uint64_t kBoxCases = 3000;

/// Shards of one model: their heads and layers begin anywhere and may overlap or not.
Axes random_axes(Random& random, std::uint64_t tokens, std::uint64_t dims) {
  Axes axes;
  axes[Axis::block] = {.extent = between(random, 1, 6)};
  axes[Axis::layer] = {.extent = between(random, 1, 3), .first = random() % 2};
  axes[Axis::outer] = {.extent = 2};
  axes[Axis::token] = {.extent = tokens};
  axes[Axis::head] = {.extent = between(random, 1, 4), .first = random() % 3};
  axes[Axis::dim] = {.extent = dims};
  return axes;
}

std::vector<BlockRange> random_blocks(Random& random, std::uint64_t sources,
                                      std::uint64_t targets) {
  std::vector<std::uint64_t> ids(targets);
  std::iota(ids.begin(), ids.end(), 0);
  if (random() % 2 == 0) std::ranges::shuffle(ids, random);
  ids.resize(between(random, 0, targets));
  std::vector<BlockRange> ranges;
  for (const std::uint64_t id : ids) ranges.push_back({random() % sources, id, 1});
  return ranges;
}

void check_boxes(std::uint64_t seed) {
  Random random(seed);
  constexpr unsigned kWidths[] = {4, 8, 16, 32};
  const unsigned bits = kWidths[random() % 4];
  const std::uint64_t tokens = between(random, 1, 4);
  const std::uint64_t dims = (bits == 4 ? 2 : 1) * between(random, 1, 3);
  CellMemory source = testing::random_memory(random, random_axes(random, tokens, dims), bits);
  CellMemory target = testing::random_memory(random, random_axes(random, tokens, dims), bits);
  testing::fill_uniquely(source);
  auto overlap = intersect(source.view, target.view);
  if (!overlap.ok()) {
    EXPECT_EQ(overlap.code(), Code::not_found);
    return;
  }
  source.view = overlap->source;
  target.view = overlap->target;
  const auto blocks =
      random_blocks(random, source.view[Axis::block].extent, target.view[Axis::block].extent);
  const auto made = plan_boxes(source.view, target.view, blocks);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  CellMemory expected = target;
  for (const BlockRange& block : blocks)
    testing::copy_by_elements(source, expected, {block.source_first, block.target_first});
  CellMemory chained = target;
  testing::run_plan(to_runs(*made), bits, source, target);
  testing::run_plan(to_runs(merged(*made)), bits, source, chained);
  EXPECT_EQ(target.regions, expected.regions) << to_string(source.view) << "\n"
                                              << to_string(target.view);
  EXPECT_EQ(chained.regions, expected.regions) << "when merged";
  EXPECT_EQ(made->bytes() * 8 / bits,
            blocks.size() * source.view.elements() / source.view[Axis::block].extent);
}

TEST(BoxPlanPropertyTest, every_plan_moves_what_a_copy_by_elements_moves) {
  for (std::uint64_t seed = kFirstBoxSeed; seed < kFirstBoxSeed + kBoxCases; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    ASSERT_NO_FATAL_FAILURE(check_boxes(seed));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace towpath::layout
