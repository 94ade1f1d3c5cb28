#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/layout/strides.h>
#include <towpath/layout/testing/config_of.h>

namespace towpath::layout {
namespace {

using testing::config_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr LayoutKind kKinds[] = {LayoutKind::fully_contiguous,
                                 LayoutKind::layer_separate_block_first,
                                 LayoutKind::layer_separate_block_second};

TEST(StridesTest, fully_contiguous_has_the_published_strides) {
  const auto large =
      Geometry::make(config_of(10, 4, 16, 128), LayoutKind::fully_contiguous).value();
  EXPECT_EQ(large.page_bytes(), 4096u);
  EXPECT_EQ(large.outer_stride, 4096u);
  EXPECT_EQ(large.layer_stride, 8192u);
  EXPECT_EQ(large.block_stride, 32768u);
  EXPECT_THAT(large.required_sizes(), ElementsAre(327680u));

  const auto small = Geometry::make(config_of(2, 2, 4, 8), LayoutKind::fully_contiguous).value();
  EXPECT_EQ(small.page_bytes(), 64u);
  EXPECT_EQ(small.layer_stride, 128u);
  EXPECT_EQ(small.block_stride, 256u);
  EXPECT_EQ(small.place({1, 1, 1}).value(), (PagePlace{.region = 0, .offset = 448}));
}

TEST(StridesTest, layer_separate_second_has_the_published_strides) {
  const auto geometry =
      Geometry::make(config_of(2, 2, 16, 128), layer_separate(BlockDimension::second)).value();
  EXPECT_EQ(geometry.block_stride, 4096u);
  EXPECT_EQ(geometry.outer_stride, 8192u);
  EXPECT_EQ(geometry.layer_stride, 0u);
  EXPECT_THAT(geometry.required_sizes(), ElementsAre(16384u, 16384u));
}

TEST(StridesTest, layer_separate_first_keeps_the_outers_of_a_block_together) {
  const auto geometry =
      Geometry::make(config_of(2, 2, 16, 128), layer_separate(BlockDimension::first)).value();
  EXPECT_EQ(geometry.block_stride, 8192u);
  EXPECT_EQ(geometry.outer_stride, 4096u);
  EXPECT_THAT(geometry.required_sizes(), ElementsAre(16384u, 16384u));
}

TEST(StridesTest, sizes_of_the_seed_layout) {
  const LayoutConfig config = config_of(2, 3, 4, 8);
  EXPECT_THAT(Geometry::make(config, LayoutKind::fully_contiguous).value().required_sizes(),
              ElementsAre(768u));
  for (auto dimension : {BlockDimension::first, BlockDimension::second})
    EXPECT_THAT(Geometry::make(config, layer_separate(dimension)).value().required_sizes(),
                ElementsAre(256u, 256u, 256u));
}

TEST(StridesTest, every_page_of_layer_separate_second_follows_the_formula) {
  const LayoutConfig config = config_of(5, 3, 4, 8);
  const auto geometry = Geometry::make(config, layer_separate(BlockDimension::second)).value();
  for (std::uint64_t b = 0; b < 5; ++b)
    for (std::uint64_t l = 0; l < 3; ++l)
      for (std::uint64_t o = 0; o < 2; ++o)
        EXPECT_EQ(geometry.place({b, l, o}).value(),
                  (PagePlace{.region = l, .offset = b * 64 + o * 64 * 5}));
}

TEST(StridesTest, alignment_moves_the_stride_of_a_block_and_no_other) {
  LayoutConfig config = config_of(3, 3, 4, 8);  // a page is 64 bytes
  config.alignment = 512;
  const auto contiguous = Geometry::make(config, LayoutKind::fully_contiguous).value();
  EXPECT_EQ(contiguous.outer_stride, 64u);
  EXPECT_EQ(contiguous.layer_stride, 128u);
  EXPECT_EQ(contiguous.block_stride, 512u);  // up from 384
  EXPECT_THAT(contiguous.required_sizes(), ElementsAre(1536u));

  const auto first = Geometry::make(config, LayoutKind::layer_separate_block_first).value();
  EXPECT_EQ(first.outer_stride, 64u);
  EXPECT_EQ(first.block_stride, 512u);  // up from 128
  EXPECT_THAT(first.required_sizes(), ElementsAre(1536u, 1536u, 1536u));

  const auto second = Geometry::make(config, LayoutKind::layer_separate_block_second).value();
  EXPECT_EQ(second.block_stride, 512u);  // up from 64
  EXPECT_EQ(second.outer_stride, 1536u);
  EXPECT_THAT(second.required_sizes(), ElementsAre(3072u, 3072u, 3072u));
}

TEST(StridesTest, an_index_out_of_range_is_refused_by_name_and_count) {
  for (LayoutKind kind : kKinds) {
    const auto geometry = Geometry::make(config_of(2, 3, 4, 8), kind).value();
    EXPECT_EQ(std::string(geometry.place({2, 0, 0}).status().message()),
              "Block ID 2 out of range (count: 2)");
    EXPECT_EQ(std::string(geometry.place({0, 3, 0}).status().message()),
              "Layer ID 3 out of range (count: 3)");
    EXPECT_EQ(std::string(geometry.place({0, 0, 2}).status().message()),
              "Outer ID 2 out of range (count: 2)");
    EXPECT_EQ(geometry.place({UINT64_MAX, 0, 0}).code(), Code::out_of_range);
    EXPECT_TRUE(geometry.place({1, 2, 1}).ok());
  }
}

TEST(StridesTest, an_invalid_config_makes_no_geometry) {
  LayoutConfig config = config_of(2, 3, 4, 8);
  config.outer_dim = 3;
  for (LayoutKind kind : kKinds)
    EXPECT_EQ(Geometry::make(config, kind).code(), Code::invalid_argument);
}

TEST(StridesTest, sizes_that_overflow_are_refused_for_every_kind) {
  for (LayoutKind kind : kKinds) {
    LayoutConfig blocks = config_of(std::uint64_t{1} << 62, 3, 4, 8);
    EXPECT_EQ(Geometry::make(blocks, kind).code(), Code::out_of_range);
    LayoutConfig padded = config_of(4, 3, 4, 8);
    padded.alignment = std::uint64_t{1} << 63;
    const auto geometry = Geometry::make(padded, kind);
    EXPECT_EQ(geometry.code(), Code::out_of_range);
    EXPECT_THAT(std::string(geometry.status().message()),
                HasSubstr("allocation size overflow during layout computation"));
  }
}

TEST(StridesTest, more_layers_than_regions_are_refused_before_anything_is_allocated) {
  const LayoutConfig config = config_of(1, std::uint64_t{1} << 40, 4, 8);
  EXPECT_TRUE(Geometry::make(config, LayoutKind::fully_contiguous).ok());
  EXPECT_EQ(Geometry::make(config, LayoutKind::layer_separate_block_first).code(),
            Code::out_of_range);
}

TEST(StridesTest, a_geometry_prints_its_strides) {
  const auto geometry = Geometry::make(config_of(2, 3, 4, 8), LayoutKind::fully_contiguous).value();
  EXPECT_EQ(to_string(geometry),
            "1 regions of 768 bytes; strides: block 384, layer 128, outer 64, token 16 (16 bytes)");
}

}  // namespace
}  // namespace towpath::layout
