#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/blockcopy/box_copy.h>
#include <towpath/core/format.h>
#include <towpath/layout/testing/cell_memory.h>

namespace towpath::blockcopy {
namespace {

using layout::Axes;
using layout::Axis;
using layout::BlockRange;
using layout::testing::between;
using layout::testing::Random;

constexpr std::uint64_t kFirstCopySeed = 20270401;
constexpr std::uint64_t kCopyCases = 150;

/// Bytes as large as the memory of cells that the plan was made for.
struct ByteRegions {
  explicit ByteRegions(const layout::testing::CellMemory& like, unsigned bits) {
    for (const auto& cells : like.regions) owned.emplace_back(cells.size() * bits / 8 + 8);
    for (Bytes& bytes : owned) spans.emplace_back(bytes);
  }
  std::vector<Bytes> owned;
  std::vector<ByteSpan> spans;
};

void fill_randomly(Random& random, ByteRegions& regions) {
  for (Bytes& bytes : regions.owned)
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
}

void check_copy(std::uint64_t seed) {
  Random random(seed);
  constexpr unsigned kWidths[] = {4, 8, 16, 32};
  const unsigned bits = kWidths[random() % 4];
  Axes axes;
  axes[Axis::block].extent = between(random, 1, 5);
  axes[Axis::layer].extent = between(random, 1, 3);
  axes[Axis::outer].extent = between(random, 1, 2);
  axes[Axis::token].extent = between(random, 1, 40);  // beyond a tile
  axes[Axis::head].extent = between(random, 1, 20);
  constexpr std::uint64_t kDims[] = {2, 4, 6, 8, 32, 64, 130};
  axes[Axis::dim].extent = kDims[random() % 7];
  const auto from = layout::testing::random_memory(random, axes, bits);
  const auto to = layout::testing::random_memory(random, axes, bits);
  const BlockRange all[] = {{0, 0, axes[Axis::block].extent}};
  const auto plan = plan_boxes(from.view, to.view, all);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  ByteRegions source(from, bits);
  ByteRegions target(to, bits);
  fill_randomly(random, source);
  fill_randomly(random, target);
  ByteRegions expected = target;
  for (std::size_t i = 0; i < expected.owned.size(); ++i) expected.spans[i] = expected.owned[i];
  ASSERT_TRUE(copy_boxes_plainly(*plan, {source.spans, expected.spans}).ok());
  ASSERT_TRUE(copy_boxes(*plan, {source.spans, target.spans}).ok());
  EXPECT_EQ(target.owned, expected.owned);
}

TEST(BoxCopyTest, every_box_is_copied_as_piece_by_piece) {
  for (std::uint64_t seed = kFirstCopySeed; seed < kFirstCopySeed + kCopyCases; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    ASSERT_NO_FATAL_FAILURE(check_copy(seed));
    if (HasFailure()) return;
  }
}

TEST(BoxCopyTest, a_plan_of_other_regions_is_refused) {
  layout::CopyBox box{.source_offset = 8, .target_offset = 0, .pieces = layout::PieceBox(8)};
  box.pieces.add({3, 16, 8});
  const layout::BoxPlan plan({box});
  Bytes large(48), small(47);
  const ByteSpan fits[] = {large}, ends_early[] = {small};
  EXPECT_TRUE(copy_boxes(plan, {fits, fits}).ok());
  EXPECT_EQ(copy_boxes(plan, {ends_early, fits}).code(), Code::out_of_range);
  EXPECT_EQ(copy_boxes(plan, {fits, {}}).code(), Code::out_of_range);
  box.pieces.add({2, UINT64_MAX / 2, 0});
  EXPECT_EQ(copy_boxes(layout::BoxPlan({box}), {fits, fits}).code(), Code::out_of_range);
}

}  // namespace
}  // namespace towpath::blockcopy
