#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/backends/messages/token_table.h>

namespace towpath::backends::messages {
namespace {

TEST(TokenTableTest, zero_and_a_token_that_is_taken_are_refused) {
  const RegionDescriptor one;
  const RegionDescriptor other;
  TokenTable table;
  EXPECT_FALSE(table.add({0, &one}));
  EXPECT_EQ(table.find(0), nullptr);
  EXPECT_TRUE(table.add({7, &one}));
  EXPECT_FALSE(table.add({7, &other}));
  EXPECT_EQ(table.find(7)->region, &one);
}

TEST(TokenTableTest, what_was_removed_is_not_found_and_may_come_again) {
  const RegionDescriptor region;
  TokenTable table;
  table.remove(7);
  EXPECT_TRUE(table.add({7, &region}));
  table.remove(7);
  EXPECT_EQ(table.find(7), nullptr);
  EXPECT_TRUE(table.add({7, &region}));
}

// Few low bits, so that most stand where others would be, around the end of the table as well.
TEST(TokenTableTest, holds_what_a_map_holds) {
  std::mt19937_64 random(1);
  const std::vector<RegionDescriptor> regions(64);
  TokenTable table;
  std::map<std::uint64_t, const RegionDescriptor*> expected;
  for (int step = 0; step < 20'000; ++step) {
    const std::uint64_t token = (random() % 16 << 32U) + random() % 4 * 7 + 1;
    const RegionDescriptor* const region = &regions[random() % regions.size()];
    if (random() % 2 == 0) {
      ASSERT_EQ(table.add({token, region}), expected.try_emplace(token, region).second) << step;
    } else {
      table.remove(token);
      expected.erase(token);
    }
    if (step % 16 != 0) continue;
    for (std::uint64_t high = 0; high < 16; ++high) {
      for (std::uint64_t low = 1; low < 29; low += 7) {
        const std::uint64_t asked = (high << 32U) + low;
        const Registered* const found = table.find(asked);
        const auto known = expected.find(asked);
        ASSERT_EQ(found == nullptr ? nullptr : found->region,
                  known == expected.end() ? nullptr : known->second)
            << step << ": " << asked;
      }
    }
  }
}

}  // namespace
}  // namespace towpath::backends::messages
