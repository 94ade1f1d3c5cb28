#include <algorithm>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/sys/random.h>

namespace towpath::sys {
namespace {

TEST(RandomTest, numbers_differ_and_are_not_zero) {
  const std::uint64_t first = random_u64();
  EXPECT_NE(first, 0u);
  EXPECT_NE(first, random_u64());
}

TEST(RandomTest, many_numbers_all_differ_and_none_is_zero) {
  std::vector<std::uint64_t> numbers(1000);  // more than the kernel promises in one piece
  random_u64s(numbers);
  EXPECT_THAT(numbers, ::testing::Not(::testing::Contains(0)));
  std::ranges::sort(numbers);
  EXPECT_EQ(std::ranges::adjacent_find(numbers), numbers.end());
}

}  // namespace
}  // namespace towpath::sys
