#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/layout/box_plan.h>
#include <towpath/layout/layout.h>
#include <towpath/layout/testing/config_of.h>

namespace towpath::layout {
namespace {

using testing::config_of;
using ::testing::HasSubstr;

constexpr std::uint64_t kRegion[] = {1 << 20};

/// [block 4, token 8, head 4, dim 6], row by row.
TensorView sample(unsigned bits = 16) {
  TensorView::Parts parts{.element_bits = bits};
  parts.axes[Axis::block] = {.extent = 4, .stride = 192};
  parts.axes[Axis::token] = {.extent = 8, .stride = 24};
  parts.axes[Axis::head] = {.extent = 4, .stride = 6};
  parts.axes[Axis::dim] = {.extent = 6, .stride = 1};
  return TensorView::make(parts, kRegion).value();
}

Layout layout_of(LayoutKind kind, BlockFormat format, std::uint64_t base = 0) {
  LayoutDescriptor made;
  made.config = config_of(4, 3, 8, 32);
  made.config.num_heads = 4;
  made.config.format = format;
  made.kind = kind;
  for (const std::uint64_t size : Geometry::make(made.config, kind).value().required_sizes()) {
    made.regions.push_back({base, size});
    base += size;
  }
  return Layout::make(made).value();
}

TEST(TensorViewTest, positions_of_a_tensor_are_named_and_never_guessed) {
  const Axis hnd[] = {Axis::block, Axis::head, Axis::token, Axis::dim};
  const std::uint64_t shape[] = {10, 8, 8, 64};  // as many heads as tokens
  const std::uint64_t strides[] = {4096, 512, 64, 1};
  const Axes axes = axes_of({hnd, shape, strides}).value();
  EXPECT_EQ(axes[Axis::head].stride, 512u);
  EXPECT_EQ(axes[Axis::token].stride, 64u);
  EXPECT_EQ(axes[Axis::layer].extent, 1u);
  const Axis twice[] = {Axis::block, Axis::head, Axis::head, Axis::dim};
  EXPECT_THAT(axes_of({twice, shape, strides}).status().to_string(),
              HasSubstr("axis_named_twice: head"));
  EXPECT_EQ(axes_of({hnd, shape, std::span(strides).first(3)}).code(), Code::invalid_argument);
}

TEST(TensorViewTest, every_element_lies_in_its_region) {
  TensorView::Parts parts = sample().parts();
  EXPECT_TRUE(TensorView::make(parts, std::array{std::uint64_t{4 * 192 * 2}}).ok());
  EXPECT_EQ(TensorView::make(parts, std::array{std::uint64_t{4 * 192 * 2 - 1}}).code(),
            Code::out_of_range);
  parts.axes[Axis::layer] = {.extent = 2, .region_step = 1};
  EXPECT_EQ(TensorView::make(parts, kRegion).code(), Code::out_of_range);
  parts.axes[Axis::layer] = {.extent = 3, .stride = UINT64_MAX / 2};
  EXPECT_EQ(TensorView::make(parts, kRegion).code(), Code::out_of_range);
  parts.axes[Axis::layer] = {.extent = 0};
  EXPECT_THAT(TensorView::make(parts, kRegion).status().to_string(),
              HasSubstr("axis_extent_must_be_positive: layer"));
  parts.element_bits = 6;
  EXPECT_THAT(TensorView::make(parts, kRegion).status().to_string(), HasSubstr("element_bits"));
}

TEST(TensorViewTest, a_slice_names_indices_of_the_whole) {
  const TensorView shard = sample().placed_at(Axis::head, 4);  // heads 4 to 7 of 8
  const TensorView two = shard.slice(Axis::head, {5, 2}).value();
  EXPECT_EQ(two.range(Axis::head), (IndexRange{5, 2}));
  EXPECT_EQ(two.parts().offset, 6u);
  EXPECT_EQ(shard.slice(Axis::head, {3, 2}).code(), Code::out_of_range);
  EXPECT_EQ(shard.slice(Axis::head, {7, 2}).code(), Code::out_of_range);
  EXPECT_EQ(shard.slice(Axis::head, {5, 0}).code(), Code::out_of_range);
}

TEST(TensorViewTest, elements_of_four_bits_split_at_whole_bytes_only) {
  const TensorView fp4 = sample(4);
  EXPECT_EQ(fp4.bytes(), 4u * 192 / 2);
  EXPECT_TRUE(fp4.slice(Axis::dim, {2, 4}).ok());
  for (const IndexRange odd : {IndexRange{1, 2}, IndexRange{0, 3}})
    EXPECT_THAT(fp4.slice(Axis::dim, odd).status().to_string(),
                HasSubstr("sub_byte_split_must_be_whole_bytes: dim"));
  // The same cut elsewhere is no cut through a byte.
  EXPECT_TRUE(fp4.slice(Axis::token, {1, 1}).ok());
  EXPECT_TRUE(fp4.slice(Axis::dim, {0, 6}).ok());
}

TEST(TensorViewTest, a_copy_that_would_reorder_within_bytes_is_refused) {
  TensorView::Parts swapped = sample(4).parts();
  std::swap(swapped.axes[Axis::dim].stride, swapped.axes[Axis::head].stride);
  swapped.axes[Axis::dim].stride = 4;
  const TensorView target = TensorView::make(swapped, kRegion).value();
  const BlockRange all[] = {{0, 0, 4}};
  EXPECT_THAT(plan_boxes(sample(4), target, all).status().to_string(),
              HasSubstr("sub_byte_split_must_be_whole_bytes"));
  EXPECT_TRUE(plan_boxes(sample(4), sample(4), all).ok());
}

TEST(TensorViewTest, heads_of_one_element_are_joined_wherever_they_lie) {
  TensorView::Parts parts = sample().parts();
  parts.axes[Axis::dim] = {};  // as a scale of each head
  const TensorView apart = TensorView::make(parts, kRegion).value().placed_at(Axis::head, 4);
  const auto joined = apart.with_heads_joined();
  ASSERT_TRUE(joined.ok()) << joined.status().to_string();
  EXPECT_EQ((*joined)[Axis::dim], (AxisShape{.extent = 4, .stride = 6, .first = 4}));
  EXPECT_EQ((*joined)[Axis::head], AxisShape());
  parts = sample().parts();
  parts.axes[Axis::head].stride = 7;
  EXPECT_THAT(TensorView::make(parts, kRegion)->with_heads_joined().status().to_string(),
              HasSubstr("heads do not follow each other"));
}

TEST(TensorViewTest, a_target_whose_elements_share_bytes_is_refused) {
  TensorView::Parts parts = sample().parts();
  parts.axes[Axis::token].stride = 0;  // one token for all: fine to read
  const TensorView one = TensorView::make(parts, kRegion).value();
  EXPECT_FALSE(one.is_apart());
  const BlockRange all[] = {{0, 0, 4}};
  EXPECT_TRUE(plan_boxes(one, sample(), all).ok());
  EXPECT_THAT(plan_boxes(sample(), one, all).status().to_string(), HasSubstr("share bytes"));
}

TEST(TensorViewTest, extents_that_differ_are_named) {
  const BlockRange all[] = {{0, 0, 1}};
  const TensorView two = sample().slice(Axis::head, {0, 2}).value();
  EXPECT_THAT(plan_boxes(two, sample(), all).status().to_string(), HasSubstr("head has 2"));
  EXPECT_THAT(plan_boxes(sample(8), sample(), all).status().to_string(),
              HasSubstr("element_bits is 8"));
  EXPECT_EQ(intersect(sample(), sample().placed_at(Axis::head, 4)).code(), Code::not_found);
}

TEST(TensorViewTest, views_of_layouts_are_the_published_formulas) {
  // 4 blocks, 3 layers, 2 outers, 8 tokens, 4 heads of 8, 2 bytes each.
  const TensorView nhd = layout_of(LayoutKind::fully_contiguous, BlockFormat::nhd).view();
  EXPECT_EQ(nhd[Axis::token].stride, 32u);
  EXPECT_EQ(nhd[Axis::head].stride, 8u);
  EXPECT_EQ(nhd[Axis::block].stride, 3u * 2 * 8 * 32);
  const TensorView hnd = layout_of(LayoutKind::fully_contiguous, BlockFormat::hnd).view();
  EXPECT_EQ(hnd[Axis::token].stride, 8u);
  EXPECT_EQ(hnd[Axis::head].stride, 64u);
  const TensorView whole = layout_of(LayoutKind::fully_contiguous, BlockFormat::universal).view();
  EXPECT_EQ(whole[Axis::outer].stride, 64u);
  EXPECT_EQ(whole[Axis::layer].stride, 128u);
  EXPECT_EQ(whole[Axis::head].stride, 384u);
  EXPECT_TRUE(nhd.is_apart() && hnd.is_apart() && whole.is_apart());
  const TensorView objects = layout_of(LayoutKind::block_separate, BlockFormat::nhd).view();
  EXPECT_EQ(objects[Axis::block].region_step, 1u);
  EXPECT_EQ(objects[Axis::block].stride, 0u);
}

TEST(TensorViewTest, a_universal_block_has_no_pages_and_no_layers_apart) {
  const Layout whole = layout_of(LayoutKind::fully_contiguous, BlockFormat::universal);
  EXPECT_EQ(whole.memory_region({}).code(), Code::unsupported);
  LayoutDescriptor apart = whole.descriptor();
  apart.kind = LayoutKind::layer_separate_block_first;
  EXPECT_THAT(apart.validate().to_string(), HasSubstr("universal_needs_all_layers"));
}

TEST(BoxPlanTest, a_permutation_of_a_whole_cache_is_one_box) {
  const Layout nhd = layout_of(LayoutKind::fully_contiguous, BlockFormat::nhd);
  const Layout hnd = layout_of(LayoutKind::fully_contiguous, BlockFormat::hnd, 1 << 20);
  const BlockRange all[] = {{0, 0, 4}};
  const BoxPlan permuted = plan_boxes(nhd, hnd, all).value();
  EXPECT_EQ(permuted.boxes().size(), 1u);
  EXPECT_EQ(permuted.form(), CopyForm::permuted);
  EXPECT_EQ(permuted.shortest_piece(), 16u);  // a head of a token
  const Layout alike = layout_of(LayoutKind::fully_contiguous, BlockFormat::nhd, 1 << 20);
  EXPECT_EQ(plan_boxes(nhd, alike, all)->form(), CopyForm::contiguous);
  const Layout layers =
      layout_of(LayoutKind::layer_separate_block_first, BlockFormat::nhd, 1 << 20);
  EXPECT_EQ(plan_boxes(nhd, layers, all)->form(), CopyForm::strided);
  EXPECT_EQ(BoxPlan().form(), CopyForm::empty);
}

TEST(BoxPlanTest, two_formats_over_the_same_bytes_are_refused) {
  const Layout nhd = layout_of(LayoutKind::fully_contiguous, BlockFormat::nhd);
  const Layout hnd = layout_of(LayoutKind::fully_contiguous, BlockFormat::hnd);
  const BlockRange other[] = {{0, 1, 1}};
  EXPECT_THAT(plan_boxes(nhd, hnd, other).status().to_string(),
              HasSubstr("different layouts over the same bytes"));
  EXPECT_TRUE(plan_boxes(nhd, nhd, other).ok());
}

TEST(TensorViewTest, a_packed_view_keeps_the_order_and_drops_the_gaps) {
  const Layout layers = layout_of(LayoutKind::layer_separate_block_second, BlockFormat::hnd);
  const TensorView cut = layers.view().slice(Axis::layer, {1, 2}).value();
  const TensorView packed = packed_like(cut, 3, 10, 1 << 20).value();
  EXPECT_EQ(packed[Axis::head].stride, 64u);
  EXPECT_EQ(packed[Axis::block].stride, 256u);   // a page
  EXPECT_EQ(packed[Axis::outer].stride, 768u);   // 3 blocks
  EXPECT_EQ(packed[Axis::layer].stride, 1536u);  // no region of its own any more
  EXPECT_EQ(packed[Axis::layer].first, 1u);
  EXPECT_EQ(packed.parts().offset, 10u);
  EXPECT_EQ(packed_like(cut, 3, 0, 100).code(), Code::out_of_range);
}

TEST(BoxPlanTest, an_object_per_block_is_a_run_per_block) {
  const Layout cache = layout_of(LayoutKind::fully_contiguous, BlockFormat::nhd);
  const Layout objects = layout_of(LayoutKind::block_separate, BlockFormat::nhd, 1 << 20);
  const BlockRange some[] = {{1, 0, 3}};
  const Plan made = plan(cache, objects, std::span(some)).value();
  ASSERT_EQ(made.runs().size(), 3u);
  EXPECT_EQ(made.runs()[2].target_region, 2u);
  EXPECT_EQ(made.runs()[2].source_offset, 3u * 3 * 2 * 8 * 32 * 2);
  EXPECT_EQ(made.runs()[2].length, 3u * 2 * 8 * 32 * 2);
}

TEST(BoxPlanTest, formats_need_as_many_heads_on_both_sides) {
  const Layout hnd = layout_of(LayoutKind::fully_contiguous, BlockFormat::hnd, 1 << 20);
  LayoutDescriptor unsaid = layout_of(LayoutKind::fully_contiguous, BlockFormat::nhd).descriptor();
  unsaid.config.num_heads = {};
  const Layout nhd = Layout::make(unsaid).value();
  const BlockRange all[] = {{0, 0, 4}};
  EXPECT_THAT(plan_boxes(hnd, nhd, all).status().to_string(), HasSubstr("num_heads_required"));
}

TEST(BoxPlanTest, a_price_counts_bytes_pieces_and_boxes) {
  const Layout nhd = layout_of(LayoutKind::fully_contiguous, BlockFormat::nhd);
  const Layout hnd = layout_of(LayoutKind::fully_contiguous, BlockFormat::hnd, 1 << 20);
  const BlockRange all[] = {{0, 0, 4}};
  const BoxPlan permuted = plan_boxes(nhd, hnd, all).value();
  const CopyCosts costs{.bytes_per_second = 1e9, .per_piece = Duration(10), .per_box = Duration(7)};
  // 12288 bytes at one a nanosecond, 768 heads of tokens, 1 box.
  EXPECT_EQ(price(permuted, costs), Duration(12288 + 7680 + 7));
}

}  // namespace
}  // namespace towpath::layout
