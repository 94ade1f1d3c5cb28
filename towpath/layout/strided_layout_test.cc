// Layouts of any strides: what they are checked for, and that they travel.
#include <algorithm>
#include <climits>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/layout/builder.h>
#include <towpath/layout/layout_codec.h>
#include <towpath/layout/plan.h>
#include <towpath/layout/remote_layout.h>
#include <towpath/layout/testing/cell_memory.h>
#include <towpath/memory/testing/recording_registrar.h>

namespace towpath::layout {
namespace {

using testing::between;
using testing::CellMemory;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Random;

constexpr std::uint64_t kFirstStridedSeed = 20280101;
constexpr std::uint64_t kStridedCases = 2000;
constexpr std::uint64_t kFarRegionSpan = 1 << 20;

/// 2 blocks x 3 layers x 2 outer x 4 tokens x 2 heads x 4 elements of 2 bytes.
LayoutConfig padded_config() {
  return {.num_blocks = 2,
          .num_layers = 3,
          .outer_dim = 2,
          .page_size = 4,
          .inner_dim = 8,
          .num_heads = 2};
}

/// Keys and values in a region each; there tokens of all layers, with room behind every head and
/// every block.
Axes padded_axes() {
  Axes axes = extents_of(padded_config());
  axes[Axis::outer].region_step = 1;
  axes[Axis::dim].stride = 1;
  axes[Axis::head].stride = 5;
  axes[Axis::layer].stride = 10;
  axes[Axis::token].stride = 30;
  axes[Axis::block].stride = 128;
  return axes;
}
constexpr std::uint64_t kPaddedBytes = (128 + 3 * 30 + 2 * 10 + 5 + 3 + 1) * 2;

LayoutDescriptor padded_layout() {
  return {.config = padded_config(),
          .kind = LayoutKind::strided,
          .axes = padded_axes(),
          .location = {},
          .agent = {.name = "far", .incarnation = 7},
          .regions = {{4096, kPaddedBytes}, {8192, kPaddedBytes + 1}}};
}

std::string why_not_valid(const LayoutDescriptor& descriptor) {
  return std::string(descriptor.validate().message());
}

Layout travelled(const LayoutDescriptor& descriptor) {
  const auto remote = RemoteLayout::decode(encode(descriptor).value());
  EXPECT_TRUE(remote.ok()) << remote.status().to_string();
  EXPECT_EQ(remote->layout().descriptor(), descriptor);
  return remote->layout();
}

/// Memory with the layout over it, as another agent knows it.
struct FarMemory {
  Layout layout;
  CellMemory memory;
};

LayoutDescriptor over_regions(LayoutConfig config, std::size_t regions, std::uint64_t bytes,
                              std::uint64_t base) {
  LayoutDescriptor descriptor{.config = config,
                              .kind = LayoutKind::strided,
                              .axes = {},
                              .location = {},
                              .agent = {.name = "far", .incarnation = 7},
                              .regions = {}};
  for (std::size_t i = 0; i < regions; ++i)
    descriptor.regions.push_back({base + i * kFarRegionSpan, bytes});
  return descriptor;
}

FarMemory strided_side(Random& random, const LayoutConfig& config, std::uint64_t base) {
  const auto bits = static_cast<unsigned>(config.dtype_width_bytes * CHAR_BIT);
  CellMemory memory = testing::random_memory(random, extents_of(config), bits);
  // A layout's axes begin with its regions.
  TensorView::Parts parts = memory.view.parts();
  for (auto& region : memory.regions)
    region.erase(region.begin(), region.begin() + static_cast<std::ptrdiff_t>(parts.offset));
  parts.offset = 0;
  const std::uint64_t bytes = memory.regions.front().size() * config.dtype_width_bytes;
  const std::vector<std::uint64_t> sizes(memory.regions.size(), bytes);
  memory.view = TensorView::make(parts, sizes).value();
  LayoutDescriptor descriptor = over_regions(config, sizes.size(), bytes, base);
  descriptor.axes = parts.axes;
  return {travelled(descriptor), std::move(memory)};
}

FarMemory side_of_pages(Random& random, const LayoutConfig& config, std::uint64_t base) {
  const auto kind = static_cast<LayoutKind>(random() % 4);
  const auto geometry = Geometry::make(config, kind).value();
  LayoutDescriptor descriptor =
      over_regions(config, geometry.num_regions, geometry.region_bytes, base);
  descriptor.kind = kind;
  Layout layout = travelled(descriptor);
  CellMemory memory{layout.view(), {}};
  memory.regions.assign(geometry.num_regions,
                        std::vector<std::uint32_t>(geometry.region_bytes / config.dtype_width_bytes,
                                                   testing::kUntouched));
  return {std::move(layout), std::move(memory)};
}

FarMemory random_side(Random& random, LayoutConfig config, std::uint64_t base) {
  config.num_blocks = between(random, 1, 6);
  return random() % 3 == 0 ? side_of_pages(random, config, base)
                           : strided_side(random, config, base);
}

void check_copy(std::uint64_t seed) {
  Random random(seed);
  const std::uint64_t heads = between(random, 1, 3);
  LayoutConfig shape{.num_blocks = 1,
                     .num_layers = between(random, 1, 3),
                     .outer_dim = between(random, 1, 2),
                     .page_size = std::uint64_t{1} << between(random, 0, 2),
                     .inner_dim = heads * between(random, 1, 3),
                     .dtype_width_bytes = std::uint64_t{1} << between(random, 0, 2),
                     .num_heads = heads};
  if (heads == 1 && random() % 2 == 0) shape.num_heads.reset();
  FarMemory source = random_side(random, shape, 0);
  FarMemory target = random_side(random, shape, std::uint64_t{1} << 40);
  testing::fill_uniquely(source.memory);
  std::vector<BlockPair> blocks;
  for (std::uint64_t id = 0; id < target.layout.config().num_blocks; ++id)
    if (random() % 3 != 0) blocks.push_back({random() % source.layout.config().num_blocks, id});
  LayerRange layers{random() % shape.num_layers, 0};
  layers.count = between(random, 0, shape.num_layers - layers.first);

  const auto made = plan(source.layout, target.layout, std::span<const BlockPair>(blocks), layers);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  CellMemory expected = target.memory;
  for (const BlockPair& block : blocks)
    testing::copy_by_elements(source.memory, expected, block, layers);
  testing::run_plan(*made, source.memory.view.element_bits(), source.memory, target.memory);
  EXPECT_EQ(target.memory.regions, expected.regions) << to_string(source.layout.view()) << "\n"
                                                     << to_string(target.layout.view()) << "\n"
                                                     << to_string(*made);
  EXPECT_TRUE(describe(*made, source.layout, target.layout).ok());
}

TEST(StridedLayoutTest, what_travelled_is_copied_as_a_copy_by_elements_copies_it) {
  for (std::uint64_t seed = kFirstStridedSeed; seed < kFirstStridedSeed + kStridedCases; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    ASSERT_NO_FATAL_FAILURE(check_copy(seed));
    if (HasFailure()) return;
  }
}

TEST(StridedLayoutTest, regions_and_their_sizes_are_what_the_axes_reach) {
  const auto geometry = Geometry::make(padded_config(), LayoutKind::strided, padded_axes());
  ASSERT_TRUE(geometry.ok()) << geometry.status().to_string();
  EXPECT_THAT(geometry->required_sizes(), ElementsAre(kPaddedBytes, kPaddedBytes));
  EXPECT_EQ(to_string(*geometry),
            cat("2 regions of ", kPaddedBytes, " bytes; strides: as the axes say"));
  EXPECT_TRUE(padded_layout().validate().ok());
  EXPECT_EQ(travelled(padded_layout()).view().parts().axes, padded_axes());
}

TEST(StridedLayoutTest, an_axis_beyond_its_region_is_refused) {
  LayoutDescriptor layout = padded_layout();
  layout.regions[1].length = kPaddedBytes - 1;
  EXPECT_THAT(why_not_valid(layout), HasSubstr("Memory region 1 too small"));
  layout = padded_layout();
  layout.regions.pop_back();
  EXPECT_THAT(why_not_valid(layout), HasSubstr("count (1) must match that of the axes (2)"));
  layout = padded_layout();
  layout.regions[1].address = layout.regions[0].address + kPaddedBytes - 1;
  EXPECT_THAT(why_not_valid(layout), HasSubstr("overlap"));
}

TEST(StridedLayoutTest, sums_that_wrap_are_refused) {
  for (const std::uint64_t step : {std::uint64_t{1} << 62, UINT64_MAX / 3, UINT64_MAX}) {
    LayoutDescriptor layout = padded_layout();
    layout.axes[Axis::token].stride = step;
    EXPECT_EQ(layout.validate().code(), Code::out_of_range) << step;
    layout = padded_layout();
    layout.axes[Axis::layer].region_step = step;
    EXPECT_EQ(layout.validate().code(), Code::out_of_range) << step;
  }
  LayoutDescriptor layout = padded_layout();
  layout.axes[Axis::outer].region_step = kMaxRegions;
  EXPECT_THAT(why_not_valid(layout), HasSubstr("at most 65536 regions"));
}

TEST(StridedLayoutTest, strides_that_may_share_bytes_are_refused) {
  for (const std::uint64_t stride : {0, 1, 3}) {
    LayoutDescriptor layout = padded_layout();
    layout.axes[Axis::head].stride = stride;
    EXPECT_THAT(why_not_valid(layout), HasSubstr("strides_must_keep_elements_apart")) << stride;
  }
  LayoutDescriptor layout = padded_layout();
  layout.axes[Axis::outer].region_step = 0;  // keys over values
  EXPECT_THAT(why_not_valid(layout), HasSubstr("strides_must_keep_elements_apart"));
}

TEST(StridedLayoutTest, axes_must_be_those_of_the_config_and_of_a_strided_layout_only) {
  LayoutDescriptor layout = padded_layout();
  layout.axes[Axis::head] = {.extent = 1, .stride = 5};
  EXPECT_THAT(why_not_valid(layout), HasSubstr("head has 1 from 0, the config has 2"));
  layout = padded_layout();
  layout.axes[Axis::layer].first = 1;
  EXPECT_THAT(why_not_valid(layout), HasSubstr("layer has 3 from 1, the config has 3"));
  layout = padded_layout();
  layout.kind = LayoutKind::fully_contiguous;
  EXPECT_THAT(why_not_valid(layout), HasSubstr("a fully_contiguous layout with axes of its own"));
  layout = padded_layout();
  layout.config.format = BlockFormat::hnd;
  EXPECT_THAT(why_not_valid(layout), HasSubstr("strided_layout_takes_no_format"));
  layout = padded_layout();
  layout.location.kind = MemoryKind::object;
  EXPECT_EQ(layout.validate().code(), Code::unsupported);
}

TEST(StridedLayoutTest, pages_and_other_formats_are_refused_with_what_to_do_instead) {
  const Layout layout = Layout::make(padded_layout()).value();
  EXPECT_EQ(layout.memory_region({0, 0, 0}).code(), Code::unsupported);
  EXPECT_THAT(layout.memory_region({0, 0, 0}).status().to_string(), HasSubstr("view()"));
  EXPECT_EQ(layout.view_as(BlockFormat::universal).code(), Code::unsupported);
  EXPECT_EQ(layout.view_as(BlockFormat::nhd).value(), layout.view());
}

TEST(StridedLayoutTest, blocks_are_copied_within_a_cache_whatever_idle_axes_say) {
  LayoutDescriptor one = padded_layout();
  one.config.num_layers = 1;
  one.axes = extents_of(one.config);
  std::uint64_t stride = 1;
  for (const Axis axis :
       {Axis::dim, Axis::head, Axis::token, Axis::layer, Axis::outer, Axis::block}) {
    one.axes[axis].stride = stride;
    stride *= one.axes[axis].extent;
  }
  one.regions = {{0, 1 << 16}};
  LayoutDescriptor other = one;
  other.axes[Axis::layer].stride = UINT64_MAX;  // of one layer: as frameworks may leave it
  const BlockPair within{0, 1}, onto_itself{1, 1};
  const Layout a = travelled(one), b = travelled(other);
  EXPECT_TRUE(plan(a, b, std::span(&within, 1)).ok());
  EXPECT_FALSE(plan(a, b, std::span(&onto_itself, 1)).ok());
  std::swap(other.axes[Axis::block].stride, other.axes[Axis::outer].stride);
  EXPECT_THAT(plan(a, travelled(other), std::span(&within, 1)).status().to_string(),
              HasSubstr("different layouts over the same bytes"));
}

TEST(StridedLayoutTest, the_builder_makes_the_regions_that_the_axes_name) {
  memory::testing::EventLog log;
  memory::testing::RecordingRegistrar agent{log, {.name = "near"}};
  const auto cache = PhysicalLayoutBuilder(agent)
                         .with_config(padded_config())
                         .strided(padded_axes())
                         .allocate_system()
                         .build();
  ASSERT_TRUE(cache.ok()) << cache.status().to_string();
  EXPECT_EQ(cache->regions().size(), 2u);
  EXPECT_EQ(cache->bytes({0, 0, 0}).code(), Code::unsupported);
  const auto far = RemoteLayout::decode(cache->serialize(7).value());
  ASSERT_TRUE(far.ok()) << far.status().to_string();
  EXPECT_EQ(far->layout().view(), cache->layout().view());
}

}  // namespace
}  // namespace towpath::layout
