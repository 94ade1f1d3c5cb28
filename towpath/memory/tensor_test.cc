#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/memory/tensor.h>

namespace towpath::memory {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kLowest = INT64_MIN;

TEST(TensorTest, strides_of_row_major_order) {
  EXPECT_THAT(contiguous_strides({2, 3, 4}).value(), ElementsAre(12, 4, 1));
  EXPECT_THAT(contiguous_strides({}).value(), IsEmpty());
  EXPECT_EQ(contiguous_strides({2, -1}).code(), Code::invalid_argument);
  EXPECT_EQ(contiguous_strides({INT64_MAX, 2, 2}).code(), Code::out_of_range);
}

TEST(TensorTest, elements_are_counted) {
  EXPECT_EQ(element_count({.extents = {2, 3, 4}}).value(), 24u);
  EXPECT_EQ(element_count({.extents = {}}).value(), 1u);
  EXPECT_EQ(element_count({.extents = {5, 0, 7}}).value(), 0u);
}

TEST(TensorTest, contiguous_is_row_major_without_gaps) {
  EXPECT_TRUE(is_contiguous({.extents = {2, 3}}).value());
  EXPECT_TRUE(is_contiguous({.extents = {2, 3}, .strides = {3, 1}}).value());
  EXPECT_FALSE(is_contiguous({.extents = {2, 3}, .strides = {1, 2}}).value());
  EXPECT_FALSE(is_contiguous({.extents = {2, 3}, .strides = {4, 1}}).value());
  EXPECT_TRUE(is_contiguous({.extents = {1, 3}, .strides = {99, 1}}).value());
  EXPECT_TRUE(is_contiguous({.extents = {0, 3}, .strides = {7, 7}}).value());
  EXPECT_EQ(is_contiguous({.extents = {2}, .strides = {1, 1}}).code(), Code::invalid_argument);
}

TEST(TensorTest, the_bytes_from_the_lowest_to_the_highest_element) {
  const auto extent = [](TensorShape shape) { return extent_of(shape).value(); };
  EXPECT_EQ(extent({.extents = {2, 3}, .element_bytes = 2}).bytes, 12u);
  EXPECT_EQ(extent({.extents = {2, 3}, .strides = {10, 2}, .element_bytes = 2}).bytes, 30u);
  EXPECT_EQ(extent({.extents = {4}, .strides = {0}, .element_bytes = 8}).bytes, 8u);
  EXPECT_EQ(extent({.extents = {}, .element_bytes = 4}).bytes, 4u);
  EXPECT_EQ(extent({.extents = {0}, .element_bytes = 4}).bytes, 0u);
  const TensorExtent back = extent({.extents = {2, 3}, .strides = {3, -1}, .element_bytes = 2});
  EXPECT_EQ(back.before, 4u);
  EXPECT_EQ(back.bytes, 12u);
}

TEST(TensorTest, what_does_not_fit_64_bits_is_reported) {
  EXPECT_EQ(extent_of({.extents = {3}, .strides = {INT64_MAX}, .element_bytes = 4}).code(),
            Code::out_of_range);
  EXPECT_EQ(extent_of({.extents = {3}, .strides = {kLowest}, .element_bytes = 1}).code(),
            Code::out_of_range);
  EXPECT_EQ(extent_of({.extents = {2}}).code(), Code::invalid_argument);
  EXPECT_EQ(extent_of({.extents = std::vector<std::int64_t>(65, 1), .element_bytes = 1}).code(),
            Code::invalid_argument);
}

TEST(TensorRegionTest, covers_its_elements_and_keeps_their_owner) {
  auto owner = std::make_shared<std::vector<std::int16_t>>(6);
  const std::uint64_t address = address_of(owner->data());
  auto region =
      TensorRegion::borrow({.kind = MemoryKind::system,
                            .address = address + 4,  // element (0, 0) is the third
                            .shape = {.extents = {2, 3}, .strides = {3, -1}, .element_bytes = 2},
                            .keep_alive = owner})
          .value();
  EXPECT_EQ(region->descriptor().address, address);
  EXPECT_EQ(region->size(), 12u);
  EXPECT_FALSE(region->contiguous());
  const std::weak_ptr<std::vector<std::int16_t>> watched = owner;
  owner.reset();
  EXPECT_FALSE(watched.expired());
  region.reset();
  EXPECT_TRUE(watched.expired());
}

TEST(TensorRegionTest, what_is_nowhere_is_refused) {
  const TensorShape shape{.extents = {4}, .strides = {}, .element_bytes = 4};
  EXPECT_EQ(TensorRegion::borrow({.address = 0, .shape = shape}).code(), Code::invalid_argument);
  EXPECT_EQ(
      TensorRegion::borrow({.address = 4096, .shape = {.extents = {0}, .element_bytes = 4}}).code(),
      Code::invalid_argument);
  EXPECT_EQ(TensorRegion::borrow(
                {.address = 8, .shape = {.extents = {9}, .strides = {-1}, .element_bytes = 4}})
                .code(),
            Code::out_of_range);
  EXPECT_EQ(TensorRegion::borrow({.address = UINT64_MAX - 3, .shape = shape}).code(),
            Code::out_of_range);
}

}  // namespace
}  // namespace towpath::memory
