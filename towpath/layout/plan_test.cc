#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/layout/plan.h>

namespace towpath::layout {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Pages of 64 bytes, two of them per layer.
LayoutConfig small(std::uint64_t blocks, std::uint64_t layers = 3) {
  return {
      .num_blocks = blocks, .num_layers = layers, .outer_dim = 2, .page_size = 4, .inner_dim = 8};
}

Layout layout_of(const LayoutConfig& config, LayoutKind kind, std::uint64_t base) {
  LayoutDescriptor descriptor;
  descriptor.config = config;
  descriptor.kind = kind;
  const Geometry geometry = Geometry::make(config, kind).value();
  for (std::uint64_t size : geometry.required_sizes()) {
    descriptor.regions.push_back({base, size});
    base += size;
  }
  return Layout::make(descriptor).value();
}

constexpr std::uint64_t kHere = 0;
constexpr std::uint64_t kThere = std::uint64_t{1} << 40;
constexpr LayoutKind kContiguous = LayoutKind::fully_contiguous;
constexpr LayoutKind kFirst = LayoutKind::layer_separate_block_first;
constexpr LayoutKind kSecond = LayoutKind::layer_separate_block_second;

Result<Plan> plan_of(const Layout& source, const Layout& target, std::vector<BlockRange> blocks,
                     LayerRange layers = LayerRange::all()) {
  return plan(source, target, std::span<const BlockRange>(blocks), layers);
}

TEST(PlanTest, a_whole_contiguous_cache_is_one_piece) {
  const std::uint64_t million = 1'000'000;
  const auto source = layout_of(small(million), kContiguous, kHere);
  const auto target = layout_of(small(million), kContiguous, kThere);
  const Plan plan = plan_of(source, target, {{0, 0, million}}).value();
  EXPECT_THAT(plan.runs(), ElementsAre(CopyRun{.length = million * 384}));
  EXPECT_EQ(plan.bytes(), million * 384);
  EXPECT_EQ(plan.pieces(), 1u);
}

TEST(PlanTest, a_range_between_contiguous_caches_is_one_piece_at_its_offsets) {
  const Plan plan = plan_of(layout_of(small(10), kContiguous, kHere),
                            layout_of(small(20), kContiguous, kThere), {{2, 11, 3}})
                        .value();
  EXPECT_THAT(
      plan.runs(),
      ElementsAre(CopyRun{.source_offset = 2 * 384, .target_offset = 11 * 384, .length = 3 * 384}));
}

TEST(PlanTest, padding_between_blocks_makes_a_strided_run) {
  LayoutConfig padded = small(10);
  padded.alignment = 512;
  const Plan plan = plan_of(layout_of(small(10), kContiguous, kHere),
                            layout_of(padded, kContiguous, kThere), {{0, 0, 10}})
                        .value();
  EXPECT_THAT(
      plan.runs(),
      ElementsAre(CopyRun{.length = 384, .count = 10, .source_stride = 384, .target_stride = 512}));
}

TEST(PlanTest, contiguous_to_layers_is_a_strided_run_per_layer) {
  const std::uint64_t million = 1'000'000;
  const Plan plan = plan_of(layout_of(small(million), kContiguous, kHere),
                            layout_of(small(million), kFirst, kThere), {{0, 0, million}})
                        .value();
  const auto run = [&](std::uint64_t layer) {
    return CopyRun{.source_offset = layer * 128,
                   .target_region = layer,
                   .length = 128,
                   .count = million,
                   .source_stride = 384,
                   .target_stride = 128};
  };
  EXPECT_THAT(plan.runs(), ElementsAre(run(0), run(1), run(2)));
}

TEST(PlanTest, contiguous_to_layers_by_outer_is_two_strided_runs_per_layer) {
  const Plan plan = plan_of(layout_of(small(10), kContiguous, kHere),
                            layout_of(small(10), kSecond, kThere), {{0, 0, 10}}, {1, 1})
                        .value();
  const CopyRun keys{.source_offset = 128,
                     .target_region = 1,
                     .length = 64,
                     .count = 10,
                     .source_stride = 384,
                     .target_stride = 64};
  CopyRun values = keys;
  values.source_offset += 64;
  values.target_offset += 640;
  EXPECT_THAT(plan.runs(), ElementsAre(keys, values));
}

TEST(PlanTest, whole_layers_by_outer_are_one_piece_each) {
  const Plan plan = plan_of(layout_of(small(10), kSecond, kHere),
                            layout_of(small(10), kSecond, kThere), {{0, 0, 10}})
                        .value();
  EXPECT_EQ(plan.pieces(), 3u);
  EXPECT_EQ(plan.runs()[2], (CopyRun{.source_region = 2, .target_region = 2, .length = 1280}));
}

TEST(PlanTest, a_part_of_layers_by_outer_is_one_run_of_keys_and_values) {
  const Plan plan = plan_of(layout_of(small(10), kSecond, kHere),
                            layout_of(small(20), kSecond, kThere), {{2, 3, 4}}, {0, 1})
                        .value();
  EXPECT_THAT(plan.runs(), ElementsAre(CopyRun{.source_offset = 128,
                                               .target_offset = 192,
                                               .length = 256,
                                               .count = 2,
                                               .source_stride = 640,
                                               .target_stride = 1280}));
}

TEST(PlanTest, every_second_block_is_one_run) {
  std::vector<BlockPair> pairs;
  for (std::uint64_t i = 0; i < 5; ++i) pairs.push_back({2 * i, i});
  const Plan plan = towpath::layout::plan(layout_of(small(10), kContiguous, kHere),
                                          layout_of(small(10), kContiguous, kThere),
                                          std::span<const BlockPair>(pairs))
                        .value();
  EXPECT_THAT(
      plan.runs(),
      ElementsAre(CopyRun{.length = 384, .count = 5, .source_stride = 768, .target_stride = 384}));
}

TEST(PlanTest, one_layer_of_a_contiguous_cache_is_a_strided_run) {
  const Plan plan = plan_of(layout_of(small(10), kContiguous, kHere),
                            layout_of(small(10), kContiguous, kThere), {{0, 0, 10}}, {1, 2})
                        .value();
  EXPECT_THAT(plan.runs(), ElementsAre(CopyRun{.source_offset = 128,
                                               .target_offset = 128,
                                               .length = 256,
                                               .count = 10,
                                               .source_stride = 384,
                                               .target_stride = 384}));
}

TEST(PlanTest, nothing_selected_is_an_empty_plan) {
  const auto source = layout_of(small(10), kContiguous, kHere);
  const auto target = layout_of(small(10), kFirst, kThere);
  EXPECT_TRUE(plan_of(source, target, {}).value().empty());
  EXPECT_TRUE(plan_of(source, target, {{0, 0, 10}}, {1, 0}).value().empty());
  EXPECT_TRUE(plan_of(source, target, {{0, 0, 10}}, {3, 0}).value().empty());
}

TEST(PlanTest, layers_out_of_range_are_refused) {
  const auto source = layout_of(small(10), kContiguous, kHere);
  const auto target = layout_of(small(10), kFirst, kThere);
  const auto failed = plan_of(source, target, {{0, 0, 1}}, {2, 2});
  EXPECT_EQ(failed.code(), Code::out_of_range);
  EXPECT_THAT(std::string(failed.status().message()),
              HasSubstr("Layer ID 3 out of range (count: 3)"));
  EXPECT_EQ(plan_of(source, target, {{0, 0, 1}}, {UINT64_MAX, 2}).code(), Code::out_of_range);
}

TEST(PlanTest, shapes_that_differ_are_refused_by_field_with_both_values) {
  const auto source = layout_of(small(10), kContiguous, kHere);
  const auto refused = [&](const char* text, auto spoil) {
    LayoutConfig config = small(10);
    spoil(config);
    const auto failed = plan_of(source, layout_of(config, kContiguous, kThere), {{0, 0, 1}});
    EXPECT_EQ(failed.code(), Code::invalid_argument);
    EXPECT_THAT(std::string(failed.status().message()), HasSubstr(text));
  };
  refused("num_layers is 3 in the source", [](LayoutConfig& c) { c.num_layers = 4; });
  refused("outer_dim is 2 in the source", [](LayoutConfig& c) { c.outer_dim = 1; });
  refused("page_size is 4 in the source", [](LayoutConfig& c) { c.page_size = 8; });
  refused("inner_dim is 8 in the source", [](LayoutConfig& c) { c.inner_dim = 16; });
  refused("dtype_width_bytes is 2 in the source", [](LayoutConfig& c) { c.dtype_width_bytes = 1; });
}

TEST(PlanTest, blocks_are_checked_against_their_own_side) {
  const auto source = layout_of(small(10), kContiguous, kHere);
  const auto target = layout_of(small(5), kFirst, kThere);
  EXPECT_TRUE(plan_of(source, target, {{5, 0, 5}}).ok());
  EXPECT_EQ(plan_of(source, target, {{0, 5, 1}}).code(), Code::out_of_range);
  EXPECT_EQ(plan_of(source, target, {{10, 0, 1}}).code(), Code::out_of_range);
  EXPECT_EQ(plan_of(source, target, {{0, 0, 2}, {5, 1, 1}}).code(), Code::invalid_argument);
}

TEST(PlanTest, within_one_cache_blocks_may_move_but_not_onto_themselves) {
  for (LayoutKind kind : {kContiguous, kFirst, kSecond}) {
    const auto cache = layout_of(small(10), kind, kHere);
    EXPECT_TRUE(plan_of(cache, cache, {{0, 5, 5}}).ok());
    EXPECT_EQ(plan_of(cache, cache, {{0, 4, 5}}).code(), Code::invalid_argument);
  }
}

TEST(PlanTest, two_layouts_over_the_same_bytes_are_refused) {
  const auto cache = layout_of(small(10), kContiguous, kHere);
  const auto failed = plan_of(cache, layout_of(small(10), kFirst, 3839), {{0, 9, 1}});
  EXPECT_EQ(failed.code(), Code::invalid_argument);
  EXPECT_THAT(std::string(failed.status().message()), HasSubstr("over the same bytes"));
  const auto behind = layout_of(small(10), kFirst, 3840);
  EXPECT_TRUE(plan_of(cache, behind, {{0, 9, 1}}).ok());
  EXPECT_TRUE(plan_of(behind, cache, {{0, 9, 1}}).ok());

  LayoutDescriptor pinned = cache.descriptor();
  pinned.location.kind = MemoryKind::pinned;
  EXPECT_EQ(plan_of(cache, Layout::make(pinned).value(), {{0, 1, 9}}).code(),
            Code::invalid_argument)
      << "the same blocks by another name, and one behind the other";
  EXPECT_TRUE(plan_of(cache, Layout::make(pinned).value(), {{0, 5, 5}}).ok());

  LayoutDescriptor peer = layout_of(small(10), kFirst, kHere).descriptor();
  peer.agent = {.name = "decode-0", .incarnation = 1};
  EXPECT_TRUE(plan_of(cache, Layout::make(peer).value(), {{0, 9, 1}}).ok());
}

TEST(PlanTest, a_plan_describes_itself_as_lists_that_pair_up) {
  const auto source = layout_of(small(10), kContiguous, 4096);
  LayoutDescriptor file = layout_of(small(10), kFirst, 0).descriptor();
  file.location = {.kind = MemoryKind::disk, .device_id = 9};
  const Layout target = Layout::make(file).value();
  const Plan plan = plan_of(source, target, {{1, 0, 4}}).value();
  const auto lists = describe(plan, source, target).value();
  EXPECT_EQ(lists.source.kind(), MemoryKind::system);
  EXPECT_EQ(lists.target.kind(), MemoryKind::disk);
  ASSERT_EQ(lists.source.entries().size(), 3u);
  ASSERT_EQ(lists.target.entries().size(), 3u);
  EXPECT_EQ(lists.source.total_bytes(), lists.target.total_bytes());
  EXPECT_EQ(
      lists.source.entries()[1],
      (StridedDescriptor{.address = 4096 + 384 + 128, .length = 128, .stride = 384, .count = 4}));
  EXPECT_EQ(lists.target.entries()[1],
            (StridedDescriptor{
                .address = 1280, .length = 512 / 4, .stride = 128, .count = 4, .device_id = 9}));
}

TEST(PlanTest, a_plan_of_other_layouts_is_not_described) {
  const auto large = layout_of(small(10), kFirst, 4096);
  const auto fewer = layout_of(small(5), kFirst, kThere);
  const auto contiguous = layout_of(small(10), kContiguous, kThere);
  const Plan plan = plan_of(large, layout_of(small(10), kFirst, kThere), {{0, 0, 10}}).value();
  EXPECT_EQ(describe(plan, large, fewer).code(), Code::out_of_range);
  EXPECT_EQ(describe(plan, large, contiguous).code(), Code::out_of_range);
  EXPECT_EQ(describe(Plan({CopyRun{.length = 1, .count = 0}}), large, large).code(),
            Code::out_of_range);
  EXPECT_EQ(describe(Plan({CopyRun{.length = 1, .count = 3, .source_stride = UINT64_MAX / 2 + 1}}),
                     large, large)
                .code(),
            Code::out_of_range);
}

TEST(PlanTest, a_plan_prints_its_runs) {
  const Plan plan = plan_of(layout_of(small(10), kContiguous, kHere),
                            layout_of(small(10), kSecond, kThere), {{0, 0, 10}}, {1, 1})
                        .value();
  EXPECT_EQ(to_string(plan),
            "plan: 2 runs, 20 pieces, 1280 B\n"
            "  source          target          length   count   source stride   target stride\n"
            "  region 0 +128   region 1 +0         64      10             384              64\n"
            "  region 0 +192   region 1 +640       64      10             384              64\n");
  EXPECT_THAT(to_string(plan, 1), HasSubstr("... and 1 more runs\n"));
  EXPECT_EQ(to_string(Plan()), "plan: 0 runs, 0 pieces, 0 B\n");
}

TEST(PlanTest, plans_compare_by_their_runs) {
  const auto source = layout_of(small(10), kContiguous, kHere);
  const auto target = layout_of(small(10), kFirst, kThere);
  EXPECT_EQ(plan_of(source, target, {{0, 0, 2}, {2, 2, 2}}).value(),
            plan_of(source, target, {{0, 0, 4}}).value());
  EXPECT_FALSE(plan_of(source, target, {{0, 0, 3}}).value() ==
               plan_of(source, target, {{0, 0, 4}}).value());
  EXPECT_THAT(Plan().runs(), IsEmpty());
}

}  // namespace
}  // namespace towpath::layout
