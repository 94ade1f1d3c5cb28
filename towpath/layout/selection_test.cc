#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/layout/selection.h>

namespace towpath::layout {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr BlockBounds kApart{.source_blocks = 100, .target_blocks = 50};
constexpr BlockBounds kSame{.source_blocks = 100, .target_blocks = 100, .same_blocks = true};

std::vector<BlockGroup> groups(const std::vector<BlockRange>& ranges) {
  return group_blocks(ranges, kApart).value();
}

std::string why_not(const std::vector<BlockRange>& ranges, const BlockBounds& bounds) {
  return std::string(group_blocks(ranges, bounds).status().message());
}

TEST(SelectionTest, pairs_that_go_on_become_ranges) {
  const std::vector<BlockPair> pairs = {{4, 0}, {5, 1}, {6, 2}, {9, 3}, {8, 4}, {9, 5}};
  EXPECT_THAT(ranges_of(pairs),
              ElementsAre(BlockRange{4, 0, 3}, BlockRange{9, 3, 1}, BlockRange{8, 4, 2}));
  EXPECT_THAT(ranges_of({}), IsEmpty());
}

TEST(SelectionTest, ranges_in_any_order_merge_by_target) {
  EXPECT_THAT(groups({{20, 10, 5}, {10, 0, 5}, {15, 5, 5}}),
              ElementsAre(BlockGroup{.range = {10, 0, 15}}));
}

TEST(SelectionTest, ranges_at_a_constant_step_become_one_group) {
  EXPECT_THAT(groups({{4, 0, 2}, {8, 2, 2}, {12, 4, 2}}),
              ElementsAre(BlockGroup{
                  .range = {4, 0, 2}, .repeats = 3, .source_step = 4, .target_step = 2}));
}

TEST(SelectionTest, a_change_of_step_or_length_begins_a_new_group) {
  EXPECT_THAT(
      groups({{0, 0, 1}, {2, 1, 1}, {4, 2, 1}, {7, 3, 1}, {20, 10, 3}}),
      ElementsAre(BlockGroup{.range = {0, 0, 1}, .repeats = 3, .source_step = 2, .target_step = 1},
                  BlockGroup{.range = {7, 3, 1}}, BlockGroup{.range = {20, 10, 3}}));
}

TEST(SelectionTest, one_source_may_feed_many_targets) {
  EXPECT_THAT(groups({{7, 0, 1}, {7, 1, 1}, {7, 2, 1}}),
              ElementsAre(BlockGroup{
                  .range = {7, 0, 1}, .repeats = 3, .source_step = 0, .target_step = 1}));
}

TEST(SelectionTest, sources_that_go_back_stay_apart) {
  EXPECT_EQ(groups({{9, 0, 1}, {8, 1, 1}, {7, 2, 1}}).size(), 3u);
}

TEST(SelectionTest, ranges_of_no_blocks_are_skipped) {
  EXPECT_THAT(groups({{1000, 1000, 0}}), IsEmpty());
  EXPECT_THAT(groups({}), IsEmpty());
}

TEST(SelectionTest, blocks_out_of_range_are_refused_by_side_and_entry) {
  EXPECT_EQ(why_not({{0, 0, 1}, {100, 1, 1}}, kApart),
            "Block ID 100 out of range (count: 100): entry 1 takes 1 source blocks from 100");
  EXPECT_EQ(why_not({{0, 48, 3}}, kApart),
            "Block ID 50 out of range (count: 50): entry 0 takes 3 target blocks from 48");
  EXPECT_EQ(group_blocks(std::vector<BlockRange>{{1, 1, UINT64_MAX}}, kApart).code(),
            Code::out_of_range);
  EXPECT_EQ(group_blocks(std::vector<BlockRange>{{UINT64_MAX, 1, 2}}, kApart).code(),
            Code::out_of_range);
}

TEST(SelectionTest, a_target_block_twice_is_refused_with_both_entries) {
  EXPECT_EQ(why_not({{0, 5, 1}, {1, 6, 1}, {2, 5, 1}}, kApart),
            "block 5 is a target twice: in entries 0 and 2");
  EXPECT_EQ(why_not({{0, 5, 10}, {30, 14, 1}}, kApart),
            "block 14 is a target twice: in entries 0 and 1");
  EXPECT_TRUE(group_blocks(std::vector<BlockRange>{{0, 5, 10}, {30, 15, 1}}, kApart).ok());
}

TEST(SelectionTest, in_one_cache_a_block_is_not_both_read_and_written) {
  EXPECT_THAT(why_not({{3, 3, 1}}, kSame),
              HasSubstr("block 3 is both source (entry 0) and target"));
  EXPECT_THAT(why_not({{0, 5, 10}}, kSame), HasSubstr("block 5 is both"));
  EXPECT_THAT(why_not({{20, 0, 5}, {4, 30, 1}}, kSame),
              HasSubstr("block 4 is both source (entry 1) and target (entry 0)"));
  EXPECT_THAT(why_not({{0, 50, 3}, {1, 60, 1}, {2, 1, 1}}, kSame), HasSubstr("block 1 is both"));
  EXPECT_TRUE(group_blocks(std::vector<BlockRange>{{0, 5, 5}, {0, 10, 5}}, kSame).ok());
  EXPECT_TRUE(group_blocks(std::vector<BlockRange>{{5, 0, 5}, {5, 10, 5}}, kSame).ok());
  EXPECT_TRUE(group_blocks(std::vector<BlockRange>{{0, 5, 10}}, kApart).ok());
}

}  // namespace
}  // namespace towpath::layout
