#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/core/descriptor.h>

namespace towpath {
namespace {

TEST(DescriptorListTest, index_counts_extents_across_entries) {
  DescriptorList list(MemoryKind::system);
  ASSERT_TRUE(list.add(StridedDescriptor{1000, 16, 64, 3, 0}).ok());
  ASSERT_TRUE(list.add(Descriptor{9000, 32, 0}).ok());
  EXPECT_EQ(list.size(), 4U);
  EXPECT_EQ(list.total_bytes(), 80U);
  EXPECT_EQ(list.at(0), (Descriptor{1000, 16, 0}));
  EXPECT_EQ(list.at(2), (Descriptor{1128, 16, 0}));
  EXPECT_EQ(list.at(3), (Descriptor{9000, 32, 0}));
  EXPECT_THAT(list.first_indices(), testing::ElementsAre(0U, 3U, 4U));
}

TEST(DescriptorListTest, keeps_the_order_it_was_given_and_allows_overlap) {
  DescriptorList list(MemoryKind::disk);
  ASSERT_TRUE(list.add(Descriptor{500, 100, 1}).ok());
  ASSERT_TRUE(list.add(Descriptor{0, 550, 1}).ok());
  EXPECT_EQ(list.at(0).address, 500U);
  EXPECT_EQ(list.at(1).address, 0U);
}

TEST(DescriptorListTest, refuses_what_would_wrap_and_stays_as_it_was) {
  DescriptorList list(MemoryKind::system);
  EXPECT_EQ(list.add(Descriptor{UINT64_MAX, 2, 0}).code(), Code::out_of_range);
  EXPECT_EQ(list.add(StridedDescriptor{0, 1, UINT64_MAX / 2, 4, 0}).code(), Code::out_of_range);
  EXPECT_EQ(list.add(StridedDescriptor{0, 1, 1, 0, 0}).code(), Code::invalid_argument);
  ASSERT_TRUE(list.add(Descriptor{0, UINT64_MAX, 0}).ok());
  EXPECT_EQ(list.add(Descriptor{0, 1, 0}).code(), Code::out_of_range) << "the sum of lengths";
  EXPECT_EQ(list.size(), 1U);
}

TEST(DescriptorListTest, clear_leaves_an_empty_list) {
  DescriptorList list(MemoryKind::system, std::vector<Descriptor>{{1, 2, 3}, {4, 5, 6}});
  list.clear();
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.total_bytes(), 0U);
  EXPECT_EQ(list, DescriptorList(MemoryKind::system));
}

TEST(RegionDescriptorTest, covers_only_what_lies_inside_on_the_same_device) {
  RegionDescriptor region{
      .kind = MemoryKind::device, .address = 4096, .length = 100, .device_id = 2};
  EXPECT_TRUE(region.covers({4096, 100, 2}));
  EXPECT_TRUE(region.covers({4196, 0, 2}));
  EXPECT_FALSE(region.covers({4096, 101, 2}));
  EXPECT_FALSE(region.covers({4095, 1, 2}));
  EXPECT_FALSE(region.covers({4096, 1, 1}));
  EXPECT_FALSE(region.covers({4100, UINT64_MAX, 2}));
  EXPECT_EQ(to_string(region), "device [0x1000, +100) device 2");
}

}  // namespace
}  // namespace towpath
