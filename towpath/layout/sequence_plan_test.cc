// plan_tokens() and plan_layer_groups() against a copy element by element.
#include <algorithm>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/layout/layer_groups.h>
#include <towpath/layout/sequence_plan.h>
#include <towpath/layout/testing/cell_memory.h>

namespace towpath::layout {
namespace {

using testing::between;
using testing::CellMemory;
using testing::Element;
using ::testing::HasSubstr;
using testing::Random;

constexpr std::uint64_t kFirstTokenSeed = 20270201;
constexpr std::uint64_t kTokenCases = 1500;
constexpr std::uint64_t kTableBlocks = 8;

std::vector<std::uint64_t> random_table(Random& random) {
  std::vector<std::uint64_t> table(kTableBlocks);
  std::iota(table.begin(), table.end(), 0);
  if (random() % 2 == 0) std::ranges::shuffle(table, random);
  table.resize(between(random, 1, kTableBlocks));
  return table;
}

Axes axes_with(std::uint64_t tokens) {
  Axes axes;
  axes[Axis::block].extent = kTableBlocks;
  axes[Axis::layer].extent = 2;
  axes[Axis::token].extent = tokens;
  axes[Axis::head].extent = 2;
  axes[Axis::dim].extent = 2;
  return axes;
}

void copy_by_elements(CellMemory& source, CellMemory& target, const TokenCopy& copy) {
  const std::uint64_t from_size = source.view[Axis::token].extent;
  const std::uint64_t to_size = target.view[Axis::token].extent;
  for (std::uint64_t i = 0; i < copy.count; ++i) {
    const std::uint64_t from = copy.source_first + i;
    const std::uint64_t to = copy.target_first + i;
    for (std::uint64_t l = 0; l < 2; ++l)
      for (std::uint64_t h = 0; h < 2; ++h)
        for (std::uint64_t d = 0; d < 2; ++d)
          target.cell({copy.target_blocks[to / to_size], l, 0, to % to_size, h, d}) =
              source.cell({copy.source_blocks[from / from_size], l, 0, from % from_size, h, d});
  }
}

void check_tokens(std::uint64_t seed) {
  Random random(seed);
  constexpr std::uint64_t kSizes[] = {1, 2, 3, 4, 8, 16};
  CellMemory source = testing::random_memory(random, axes_with(kSizes[random() % 6]), 16);
  CellMemory target = testing::random_memory(random, axes_with(kSizes[random() % 6]), 16);
  testing::fill_uniquely(source);
  const auto from = random_table(random);
  const auto to = random_table(random);
  const std::uint64_t held = from.size() * source.view[Axis::token].extent;
  const std::uint64_t room = to.size() * target.view[Axis::token].extent;
  TokenCopy copy{from, to, random() % held, random() % room};
  copy.count = between(random, 0, std::min(held - copy.source_first, room - copy.target_first));
  const auto made = plan_tokens(source.view, target.view, copy);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  CellMemory expected = target;
  copy_by_elements(source, expected, copy);
  testing::run_plan(to_runs(*made), 16, source, target);
  EXPECT_EQ(target.regions, expected.regions);
}

TEST(SequencePlanTest, every_plan_moves_what_a_copy_by_elements_moves) {
  for (std::uint64_t seed = kFirstTokenSeed; seed < kFirstTokenSeed + kTokenCases; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    ASSERT_NO_FATAL_FAILURE(check_tokens(seed));
    if (HasFailure()) return;
  }
}

/// [block, layer, token, head, dim] in one region.
TensorView cache(std::uint64_t blocks, std::uint64_t tokens) {
  TensorView::Parts parts;
  parts.axes[Axis::dim] = {.extent = 128, .stride = 1};
  parts.axes[Axis::head] = {.extent = 8, .stride = 128};
  parts.axes[Axis::token] = {.extent = tokens, .stride = 1024};
  parts.axes[Axis::layer] = {.extent = 32, .stride = 1024 * tokens};
  parts.axes[Axis::block] = {.extent = blocks, .stride = 1024 * tokens * 32};
  return TensorView::make(parts, std::array{blocks * tokens * 32 * 2048}).value();
}

std::vector<std::uint64_t> in_order(std::uint64_t count) {
  std::vector<std::uint64_t> table(count);
  std::iota(table.begin(), table.end(), 0);
  return table;
}

TEST(SequencePlanTest, plans_between_16_and_64_tokens_do_not_grow_with_blocks) {
  for (const std::uint64_t blocks : {4u, 64u, 4096u}) {
    const auto small = in_order(blocks * 4);
    const auto large = in_order(blocks);
    const TokenCopy up{small, large, 0, 0, blocks * 64};
    const TokenCopy down{large, small, 0, 0, blocks * 64};
    EXPECT_EQ(plan_tokens(cache(blocks * 4, 16), cache(blocks, 64), up)->boxes().size(), 1u);
    EXPECT_EQ(plan_tokens(cache(blocks, 64), cache(blocks * 4, 16), down)->boxes().size(), 1u);
  }
}

TEST(SequencePlanTest, what_a_table_does_not_hold_is_refused) {
  const auto table = in_order(4);
  const std::vector<std::uint64_t> twice = {1, 2, 1};
  const std::vector<std::uint64_t> beyond = {0, 4};
  const TensorView view = cache(4, 16);
  EXPECT_EQ(plan_tokens(view, view, {table, table, 1, 0, 64}).code(), Code::out_of_range);
  EXPECT_EQ(plan_tokens(view, view, {beyond, table, 0, 0, 16}).code(), Code::out_of_range);
  EXPECT_THAT(plan_tokens(view, view, {table, twice, 0, 0, 16}).status().to_string(),
              HasSubstr("block 1 is a target twice"));
  EXPECT_EQ(plan_tokens(view, view, {table, table, 0, UINT64_MAX, 16}).code(), Code::out_of_range);
}

TEST(LayerGroupsTest, groups_are_matched_by_name_and_layers_by_position) {
  const auto table = in_order(2);
  const auto group = [](std::string name, std::vector<std::uint64_t> layers) {
    const TensorView view = cache(4, 16).slice(Axis::layer, {0, layers.size()}).value();
    return LayerGroup{std::move(name), std::move(layers), view};
  };
  const LayerGroup source[] = {group("full", {5, 11}), group("window", {0, 1, 2})};
  const LayerGroup target[] = {group("window", {0, 1, 2}), group("full", {5, 11})};
  const GroupCopy copies[] = {{"full", {table, table, 0, 0, 32}},
                              {"window", {table, table, 16, 0, 16}}};
  const auto plans = plan_layer_groups(source, target, copies);
  ASSERT_TRUE(plans.ok()) << plans.status().to_string();
  EXPECT_EQ((*plans)[0].plan.bytes(), 32u * 2 * 2048);
  EXPECT_EQ((*plans)[1].plan.bytes(), 16u * 3 * 2048);

  const LayerGroup swapped[] = {group("full", {11, 5}), group("window", {0, 1, 2})};
  EXPECT_THAT(plan_layer_groups(source, swapped, copies).status().to_string(),
              HasSubstr("layer 5 of the model in the source and 11"));
  const LayerGroup lone[] = {group("full", {5, 11})};
  EXPECT_EQ(plan_layer_groups(source, lone, copies).code(), Code::not_found);
  LayerGroup short_names[] = {group("full", {5, 11}), group("window", {0, 1, 2})};
  short_names[1].layers.pop_back();
  EXPECT_EQ(plan_layer_groups(source, short_names, copies).code(), Code::invalid_argument);
}

TEST(LayerGroupsTest, pipeline_stages_share_what_both_have) {
  const auto table = in_order(4);
  // The first stage has layers 0 to 15, the other side 8 to 23.
  const auto stage = [](std::uint64_t first) {
    std::vector<std::uint64_t> layers(16);
    std::iota(layers.begin(), layers.end(), first);
    const TensorView view = cache(4, 16).slice(Axis::layer, {0, 16})->placed_at(Axis::layer, first);
    return LayerGroup{"all", layers, view};
  };
  const LayerGroup source[] = {stage(0)};
  const LayerGroup target[] = {stage(8)};
  const GroupCopy copies[] = {{"all", {table, table, 0, 0, 64}}};
  EXPECT_EQ(plan_layer_groups(source, target, copies).value()[0].plan.bytes(), 64u * 8 * 2048);
  const LayerGroup far[] = {stage(16)};
  EXPECT_EQ(plan_layer_groups(source, far, copies).code(), Code::not_found);
}

}  // namespace
}  // namespace towpath::layout
