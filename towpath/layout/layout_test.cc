#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/layout/layout.h>
#include <towpath/layout/testing/config_of.h>

namespace towpath::layout {
namespace {

using testing::config_of;
using ::testing::HasSubstr;

LayoutDescriptor contiguous(const LayoutConfig& config, std::uint64_t base, std::uint64_t length) {
  LayoutDescriptor descriptor;
  descriptor.config = config;
  descriptor.regions = {{base, length}};
  return descriptor;
}

LayoutDescriptor separate(const LayoutConfig& config, BlockDimension dimension,
                          std::vector<RegionExtent> regions) {
  LayoutDescriptor descriptor;
  descriptor.config = config;
  descriptor.kind = layer_separate(dimension);
  descriptor.regions = std::move(regions);
  return descriptor;
}

std::string why_not(LayoutDescriptor descriptor) {
  return std::string(Layout::make(std::move(descriptor)).status().message());
}

TEST(LayoutTest, fully_contiguous_reports_where_a_page_is) {
  const auto layout = Layout::make(contiguous(config_of(2, 2, 4, 8), 0x10000, 512)).value();
  EXPECT_TRUE(layout.is_fully_contiguous());
  EXPECT_EQ(layout.memory_region({0, 0, 0}).value(), (Extent{0, 0x10000, 64}));
  EXPECT_EQ(layout.memory_region({1, 1, 1}).value(), (Extent{0, 0x10000 + 448, 64}));
}

TEST(LayoutTest, published_spot_values_of_the_large_config) {
  const auto layout = Layout::make(contiguous(config_of(10, 4, 16, 128), 0, 327680)).value();
  EXPECT_EQ(layout.memory_region({0, 0, 1}).value().address, 4096u);
  EXPECT_EQ(layout.memory_region({0, 1, 0}).value().address, 8192u);
  EXPECT_EQ(layout.memory_region({1, 0, 0}).value().address, 32768u);
  EXPECT_EQ(layout.memory_region({9, 3, 1}).value(), (Extent{0, 327680 - 4096, 4096}));
}

TEST(LayoutTest, every_page_of_layer_separate_second_is_at_its_formula) {
  const std::vector<RegionExtent> regions = {{1 << 20, 16384}, {1 << 10, 16384}};
  const auto layout =
      Layout::make(separate(config_of(2, 2, 16, 128), BlockDimension::second, regions)).value();
  EXPECT_FALSE(layout.is_fully_contiguous());
  for (std::uint64_t b = 0; b < 2; ++b)
    for (std::uint64_t l = 0; l < 2; ++l)
      for (std::uint64_t o = 0; o < 2; ++o)
        EXPECT_EQ(layout.memory_region({b, l, o}).value(),
                  (Extent{l, regions[l].address + b * 4096 + o * 8192, 4096}));
}

TEST(LayoutTest, every_page_of_layer_separate_first_is_at_its_formula) {
  const std::vector<RegionExtent> regions = {{0, 256}, {256, 256}, {512, 256}};
  const auto layout =
      Layout::make(separate(config_of(2, 3, 4, 8), BlockDimension::first, regions)).value();
  for (std::uint64_t b = 0; b < 2; ++b)
    for (std::uint64_t l = 0; l < 3; ++l)
      for (std::uint64_t o = 0; o < 2; ++o)
        EXPECT_EQ(layout.memory_region({b, l, o}).value(),
                  (Extent{l, l * 256 + b * 128 + o * 64, 64}));
}

TEST(LayoutTest, a_page_out_of_range_is_refused_by_name) {
  const auto layout = Layout::make(contiguous(config_of(2, 2, 4, 8), 0, 512)).value();
  EXPECT_EQ(std::string(layout.memory_region({2, 0, 0}).status().message()),
            "Block ID 2 out of range (count: 2)");
  EXPECT_EQ(layout.memory_region({0, 2, 0}).code(), Code::out_of_range);
  EXPECT_EQ(layout.memory_region({0, 0, 2}).code(), Code::out_of_range);
}

TEST(LayoutTest, a_small_region_is_refused_with_both_sizes) {
  EXPECT_THAT(why_not(contiguous(config_of(2, 2, 4, 8), 0, 511)),
              HasSubstr("too small for layout. Required: 512 bytes, got: 511 bytes"));
  EXPECT_THAT(
      why_not(separate(config_of(2, 2, 4, 8), BlockDimension::first, {{0, 256}, {256, 255}})),
      HasSubstr("Memory region 1 too small for layout. Required: 256 bytes, got: 255"));
}

TEST(LayoutTest, the_count_of_regions_must_match) {
  const LayoutConfig config = config_of(2, 3, 4, 8);
  LayoutDescriptor two = contiguous(config, 0, 768);
  two.regions.push_back({4096, 768});
  EXPECT_THAT(why_not(two), HasSubstr("exactly 1 memory region, got 2"));
  EXPECT_THAT(why_not(separate(config, BlockDimension::first, {{0, 256}, {256, 256}})),
              HasSubstr("Memory region count (2) must match num_layers (3)"));
  EXPECT_THAT(why_not(separate(config, BlockDimension::first, {})), HasSubstr("count (0)"));
}

TEST(LayoutTest, regions_that_overlap_are_refused_whatever_their_order) {
  EXPECT_THAT(why_not(separate(config_of(2, 3, 4, 8), BlockDimension::second,
                               {{4096, 256}, {0, 256}, {4096 + 255, 256}})),
              HasSubstr("Memory regions 0 and 2 overlap"));
  // What lies behind the used bytes may be shared.
  EXPECT_TRUE(Layout::make(
                  separate(config_of(2, 2, 4, 8), BlockDimension::second, {{0, 4096}, {256, 4096}}))
                  .ok());
}

TEST(LayoutTest, a_region_that_wraps_is_refused) {
  EXPECT_EQ(Layout::make(contiguous(config_of(2, 2, 4, 8), UINT64_MAX - 511, 513)).code(),
            Code::out_of_range);
}

TEST(LayoutTest, a_region_must_begin_at_the_alignment) {
  LayoutConfig config = config_of(2, 2, 4, 8);
  config.alignment = 512;
  EXPECT_TRUE(Layout::make(contiguous(config, 4096, 4096)).ok());
  EXPECT_THAT(why_not(contiguous(config, 4096 + 256, 4096)),
              HasSubstr("not a multiple of the layout's alignment 512"));
}

TEST(LayoutTest, addresses_mean_the_same_only_in_one_place_of_one_agent) {
  const LayoutDescriptor here = contiguous(config_of(2, 2, 4, 8), 0, 512);
  LayoutDescriptor file = here;
  file.location = {.kind = MemoryKind::disk, .device_id = 3};
  LayoutDescriptor other_file = file;
  other_file.location.device_id = 4;
  LayoutDescriptor peer = here;
  peer.agent = {.name = "decode-0", .incarnation = 7};
  LayoutDescriptor reborn = peer;
  reborn.agent.incarnation = 8;
  const auto made = [](const LayoutDescriptor& d) { return Layout::make(d).value(); };
  EXPECT_TRUE(share_address_space(made(here), made(here)));
  EXPECT_TRUE(share_address_space(made(peer), made(peer)));
  for (const Location& host : {Location{MemoryKind::pinned, 0}, Location{MemoryKind::system, 1}}) {
    LayoutDescriptor also_here = here;
    also_here.location = host;
    EXPECT_TRUE(share_address_space(made(here), made(also_here))) << to_string(host);
  }
  EXPECT_FALSE(share_address_space(made(here), made(file)));
  EXPECT_FALSE(share_address_space(made(file), made(other_file)));
  EXPECT_FALSE(share_address_space(made(here), made(peer)));
  EXPECT_FALSE(share_address_space(made(peer), made(reborn)));
}

TEST(LayoutTest, a_layout_prints_itself) {
  const auto layout = Layout::make(contiguous(config_of(2, 2, 4, 8), 0, 512)).value();
  EXPECT_EQ(to_string(layout),
            "fully_contiguous over system device 0: 2 blocks x 2 layers x 2 outer x 4 tokens x 8 "
            "elements of 2 bytes");
}

}  // namespace
}  // namespace towpath::layout
