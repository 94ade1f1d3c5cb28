// plan() against a copy page by page, over random shapes, kinds and selections.
//
// Memory is modelled with one cell per byte, and every cell of the source holds a number of its
// own, so that any two places swapped, shifted or repeated show. Addresses of the naive copy come
// from the published formulas, not from Geometry.
#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/layout/plan.h>

namespace towpath::layout {
namespace {

using Random = std::mt19937_64;
using Cells = std::vector<std::uint32_t>;

constexpr std::uint64_t kFirstSeed = 20260101;
constexpr std::uint64_t kCases = 6000;
constexpr std::uint32_t kUntouched = UINT32_MAX;

std::uint64_t up_to(Random& random, std::uint64_t most) { return random() % (most + 1); }
template <std::size_t N>
std::uint64_t one_of(Random& random, const std::array<std::uint64_t, N>& values) {
  return values[random() % N];
}

struct Side {
  Layout layout;
  std::vector<Cells> regions;

  // The formulas of the two families, written out.
  std::pair<std::uint64_t, std::uint64_t> cell(PageIndex at, std::uint64_t byte) const {
    const LayoutConfig& c = layout.config();
    const auto rounded = [&](std::uint64_t bytes) {
      return (bytes + c.alignment - 1) / c.alignment * c.alignment;
    };
    const std::uint64_t page = c.page_size * c.inner_dim * c.dtype_width_bytes;
    switch (layout.kind()) {
      case LayoutKind::fully_contiguous:
        return {0, at.block * rounded(c.num_layers * c.outer_dim * page) +
                       (at.layer * c.outer_dim + at.outer) * page + byte};
      case LayoutKind::layer_separate_block_first:
        return {at.layer, at.block * rounded(c.outer_dim * page) + at.outer * page + byte};
      case LayoutKind::layer_separate_block_second:
        return {at.layer, (at.outer * c.num_blocks + at.block) * rounded(page) + byte};
      case LayoutKind::block_separate:
        return {at.block, (at.layer * c.outer_dim + at.outer) * page + byte};
      case LayoutKind::strided: break;  // strided_layout_test.cc
    }
    return {};
  }
};

Side side_of(Random& random, LayoutConfig config, std::uint64_t base) {
  config.num_blocks = 1 + up_to(random, 11);
  config.alignment = one_of<4>(random, {1, 1, 16, 64});
  LayoutDescriptor descriptor;
  descriptor.config = config;
  descriptor.kind = static_cast<LayoutKind>(random() % 4);
  const Geometry geometry = Geometry::make(config, descriptor.kind).value();
  std::vector<Cells> regions;
  for (std::uint64_t size : geometry.required_sizes()) {
    const std::uint64_t length = size + up_to(random, 3);
    descriptor.regions.push_back({base, length});
    regions.emplace_back(length, kUntouched);
    base += 1 << 20;
  }
  return {Layout::make(descriptor).value(), std::move(regions)};
}

// Each target at most once; sources as regular or as wild as they come.
std::vector<BlockPair> pairs_of(Random& random, std::uint64_t sources, std::uint64_t targets) {
  std::vector<std::uint64_t> ids(targets);
  std::iota(ids.begin(), ids.end(), 0);
  const std::uint64_t order = random() % 3;
  if (order == 0) std::shuffle(ids.begin(), ids.end(), random);
  ids.resize(up_to(random, targets));
  const std::uint64_t first = random() % sources;
  const std::uint64_t step = one_of<4>(random, {0, 1, 1, 2});
  std::vector<BlockPair> pairs;
  for (std::uint64_t i = 0; i < ids.size(); ++i)
    pairs.push_back({order == 2 ? random() % sources : (first + i * step) % sources, ids[i]});
  return pairs;
}

std::vector<Cells> naive_copy(const Side& source, const Side& target,
                              const std::vector<BlockPair>& pairs, LayerRange layers) {
  std::vector<Cells> expected = target.regions;
  const LayoutConfig& config = source.layout.config();
  for (const BlockPair& pair : pairs)
    for (std::uint64_t l = layers.first; l < layers.first + layers.count; ++l)
      for (std::uint64_t o = 0; o < config.outer_dim; ++o)
        for (std::uint64_t byte = 0; byte < config.page_bytes().value(); ++byte) {
          const auto from = source.cell({pair.source, l, o}, byte);
          const auto to = target.cell({pair.target, l, o}, byte);
          expected[to.first][to.second] = source.regions[from.first][from.second];
        }
  return expected;
}

void run_plan(const Plan& plan, const Side& source, std::vector<Cells>& target) {
  for (const CopyRun& run : plan.runs())
    for (std::uint64_t i = 0; i < run.count; ++i)
      for (std::uint64_t byte = 0; byte < run.length; ++byte)
        target.at(run.target_region).at(run.target_offset + i * run.target_stride + byte) =
            source.regions.at(run.source_region)
                .at(run.source_offset + i * run.source_stride + byte);
}

void fill_uniquely(Side& side) {
  std::uint32_t next = 0;
  for (Cells& cells : side.regions)
    std::iota(cells.begin(), cells.end(),
              std::exchange(next, next + static_cast<std::uint32_t>(cells.size())));
}

// Folded: no piece of a run touches its next one on both sides, lone pieces neither, and a run of
// one piece says so in one way.
void expect_folded(const Plan& plan) {
  const auto runs = plan.runs();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const CopyRun& run = runs[i];
    EXPECT_FALSE(run.count > 1 && run.source_stride == run.length &&
                 run.target_stride == run.length);
    EXPECT_FALSE(run.count == 1 && (run.source_stride != 0 || run.target_stride != 0));
    EXPECT_GT(run.length, 0u);
    EXPECT_GT(run.count, 0u);
  }
}

void check_case(std::uint64_t seed) {
  Random random(seed);
  const LayoutConfig shape{.num_blocks = 1,
                           .num_layers = 1 + up_to(random, 3),
                           .outer_dim = 1 + up_to(random, 1),
                           .page_size = one_of<3>(random, {1, 3, 4}),
                           .inner_dim = 1 + up_to(random, 4),
                           .dtype_width_bytes = one_of<2>(random, {1, 2})};
  Side source = side_of(random, shape, 0);
  const Side target = side_of(random, shape, 1 << 30);
  fill_uniquely(source);
  const auto pairs =
      pairs_of(random, source.layout.config().num_blocks, target.layout.config().num_blocks);
  LayerRange layers{random() % shape.num_layers, 0};
  layers.count = up_to(random, shape.num_layers - layers.first);

  const auto made = plan(source.layout, target.layout, std::span<const BlockPair>(pairs), layers);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  std::vector<Cells> result = target.regions;
  run_plan(*made, source, result);
  EXPECT_EQ(result, naive_copy(source, target, pairs, layers)) << to_string(source.layout) << "\n"
                                                               << to_string(target.layout) << "\n"
                                                               << to_string(*made);
  EXPECT_EQ(made->bytes(),
            pairs.size() * layers.count * shape.outer_dim * shape.page_bytes().value());
  EXPECT_LE(made->runs().size(), pairs.size() * layers.count * shape.outer_dim);
  EXPECT_TRUE(describe(*made, source.layout, target.layout).ok());
  expect_folded(*made);
}

TEST(PlanPropertyTest, every_plan_moves_what_a_copy_by_pages_moves) {
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + kCases; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    ASSERT_NO_FATAL_FAILURE(check_case(seed));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace towpath::layout
