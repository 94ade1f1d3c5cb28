#include <cstring>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/core/bytes.h>
#include <towpath/core/format.h>
#include <towpath/device/kernels/box_kernel_ptx.h>
#include <towpath/device/kernels/box_launch.h>

namespace towpath::device::kernel {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t kAnywhere = 4096;  // of boxes that nobody copies

/// Piece by piece, as BoxCopy is explained.
void copy_plainly(const BoxCopy& box, std::size_t dimensions_left, std::uint64_t source,
                  std::uint64_t target) {
  if (dimensions_left == 0) {
    std::memcpy(bytes_at(target, box.length).data(), bytes_at(source, box.length).data(),
                box.length);
    return;
  }
  const BoxCopy::Dimension& step = box.dimensions[dimensions_left - 1];
  for (std::uint64_t i = 0; i < step.extent; ++i)
    copy_plainly(box, dimensions_left - 1, source + i * step.source_stride,
                 target + i * step.target_stride);
}

/// The bytes from the first to behind the last, on one side.
std::uint64_t reach_of(const BoxCopy& box, std::uint64_t BoxCopy::Dimension::*stride) {
  std::uint64_t reach = box.length;
  for (const auto& step : box.steps()) reach += (step.extent - 1) * (step.*stride);
  return reach;
}

/// Strides that place all pieces apart, in a random order of the dimensions and with gaps.
void give_strides(BoxCopy& box, std::uint64_t BoxCopy::Dimension::*stride, std::uint64_t unit,
                  std::mt19937_64& random) {
  std::vector<std::size_t> order(box.rank);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, random);
  std::uint64_t next = box.length;
  for (const std::size_t i : order) {
    next += random() % 3 * unit;
    box.dimensions[i].*stride = next;
    next *= box.dimensions[i].extent;
  }
}

BoxCopy random_box(std::mt19937_64& random) {
  const std::uint64_t unit = std::uint64_t{1} << random() % 6;
  BoxCopy box{.length = unit * (1 + random() % 5), .rank = random() % 5};
  for (std::size_t i = 0; i < box.rank; ++i) box.dimensions[i].extent = 1 + random() % 5;
  give_strides(box, &BoxCopy::Dimension::source_stride, unit, random);
  give_strides(box, &BoxCopy::Dimension::target_stride, unit, random);
  return box;
}

struct Memory {
  Bytes source, target, expected;
};

/// Several boxes of few shapes, behind one another, with and without a gap that shifts them.
std::vector<BoxCopy> lay_out(Memory& memory, std::mt19937_64& random) {
  std::vector<BoxCopy> boxes;
  std::uint64_t source = 0, target = 0;
  for (std::uint64_t shapes = 1 + random() % 3; shapes > 0; --shapes) {
    BoxCopy box = random_box(random);
    for (std::uint64_t times = 1 + random() % 4; times > 0; --times) {
      box.source = source;
      box.target = target;
      boxes.push_back(box);
      source += reach_of(box, &BoxCopy::Dimension::source_stride) + random() % 2;
      target += reach_of(box, &BoxCopy::Dimension::target_stride) + random() % 2;
    }
  }
  std::ranges::shuffle(boxes, random);
  memory.source.resize(source);
  for (std::byte& byte : memory.source) byte = static_cast<std::byte>(random());
  memory.target.assign(target, std::byte{0xee});
  memory.expected = memory.target;
  for (BoxCopy& box : boxes) box.source += address_of(memory.source.data());
  return boxes;
}

TEST(BoxKernelTest, random_boxes_arrive_as_when_copied_piece_by_piece) {
  std::mt19937_64 seeds(20);
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t seed = seeds();
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937_64 random(seed);
    Memory memory;
    std::vector<BoxCopy> boxes = lay_out(memory, random);
    for (BoxCopy& box : boxes) {
      const std::uint64_t offset = box.target;
      copy_plainly(box, box.rank, box.source, address_of(memory.expected.data()) + offset);
      box.target = address_of(memory.target.data()) + offset;
    }
    const auto launches = launches_of(boxes);
    ASSERT_TRUE(launches.ok()) << launches.status().to_string();
    const auto most = static_cast<U32>(1 + random() % 4);
    for (const BoxLaunch& launch : *launches) run_here(launch, blocks_for(launch, most));
    ASSERT_EQ(memory.target, memory.expected);
  }
}

BoxCopy box_of(std::uint64_t length, std::vector<BoxCopy::Dimension> steps = {}) {
  BoxCopy box{.target = kAnywhere, .source = kAnywhere, .length = length, .rank = steps.size()};
  std::ranges::copy(steps, box.dimensions.begin());
  return box;
}

TEST(BoxLaunchTest, boxes_of_one_shape_are_one_launch_until_it_is_full) {
  std::vector<BoxCopy> boxes(kMaxBoxes, box_of(64, {{4, 128, 64}}));
  EXPECT_EQ(launches_of(boxes)->size(), 1u);
  boxes.push_back(boxes.front());
  EXPECT_EQ(launches_of(boxes)->size(), 2u);
  EXPECT_EQ(launches_of(boxes)->back().boxes, 1u);
}

TEST(BoxLaunchTest, shapes_that_take_turns_are_brought_together) {
  std::vector<BoxCopy> boxes;
  for (int i = 0; i < 100; ++i)
    boxes.push_back(i % 2 == 0 ? box_of(64) : box_of(64, {{3, 64, 64}}));
  EXPECT_EQ(launches_of(boxes)->size(), 2u);
}

TEST(BoxLaunchTest, lanes_are_the_longest_that_divide_everything) {
  const auto lane = [](const BoxCopy& box) { return launches_of({&box, 1})->front().lane_bytes; };
  EXPECT_EQ(lane(box_of(256, {{8, 512, 1024}})), 16u);
  EXPECT_EQ(lane(box_of(256, {{8, 512, 1032}})), 8u);
  EXPECT_EQ(lane(box_of(252)), 4u);
  BoxCopy odd = box_of(256);
  odd.source += 2;
  EXPECT_EQ(lane(odd), 2u);
  odd.target += 1;
  EXPECT_EQ(lane(odd), 1u);
}

TEST(BoxLaunchTest, what_has_no_byte_is_in_no_launch) {
  const std::vector<BoxCopy> boxes{box_of(0), box_of(8, {{0, 8, 8}})};
  EXPECT_TRUE(launches_of(boxes)->empty());
  EXPECT_TRUE(launches_of({})->empty());
}

TEST(BoxLaunchTest, what_no_launch_can_number_is_refused) {
  const BoxCopy huge = box_of(1, {{1ull << 32U, 1, 1}});
  EXPECT_EQ(launches_of({&huge, 1}).code(), Code::unsupported);
  const BoxCopy wraps = box_of(16, {{1ull << 40U, 16, 16}, {1ull << 40U, 16, 16}});
  EXPECT_EQ(launches_of({&wraps, 1}).code(), Code::unsupported);
  // Two that are too many lanes for one launch take one each.
  EXPECT_EQ(launches_of(std::vector<BoxCopy>(2, box_of(1, {{3ull << 30U, 1, 1}})))->size(), 2u);
}

TEST(BoxLaunchTest, no_memory_and_too_many_dimensions_are_refused) {
  BoxCopy nowhere = box_of(8);
  nowhere.target = 0;
  EXPECT_EQ(launches_of({&nowhere, 1}).code(), Code::invalid_argument);
  BoxCopy deep = box_of(8);
  deep.rank = 9;
  EXPECT_EQ(launches_of({&deep, 1}).code(), Code::invalid_argument);
}

TEST(BoxLaunchTest, threads_are_as_many_as_lanes_up_to_a_bound) {
  const BoxCopy box = box_of(16 * (kThreads + 1));
  const BoxLaunch launch = launches_of({&box, 1})->front();
  EXPECT_EQ(blocks_for(launch, 100), 2u);
  EXPECT_EQ(blocks_for(launch, 1), 1u);
}

// What the driver is given: parameters as this side lays them out, and none of them copied to
// memory of each thread.
TEST(BoxKernelPtxTest, the_text_fits_the_launch) {
  const std::string text = box_kernel_ptx();
  if (text.empty()) GTEST_SKIP() << "this build had no clang that makes kernels for GPUs";
  EXPECT_THAT(text, HasSubstr(cat(".visible .entry ", kBoxKernelEntry, "(")));
  EXPECT_THAT(text, HasSubstr(cat(".param .align 8 .b8 ", kBoxKernelEntry, "_param_0[",
                                  sizeof(BoxLaunch), "]")));
  EXPECT_THAT(text, HasSubstr(".target sm_70"));
  EXPECT_THAT(text, HasSubstr("st.v4.u32"));
  EXPECT_THAT(text, Not(HasSubstr(".local")));
}

}  // namespace
}  // namespace towpath::device::kernel
