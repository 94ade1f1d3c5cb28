#include "tools/replay/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace towpath::tools::replay {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

constexpr Instant at(std::int64_t ms) { return Instant{ms * 1'000'000}; }

TEST(TimelineTest, sums_add_up_and_levels_stay) {
  Timeline sum, level(Timeline::Kind::level);
  for (Timeline* timeline : {&sum, &level}) {
    timeline->add(at(1000), 5);
    timeline->add(at(1000), 7);
    timeline->add(at(1003), 1);
  }
  EXPECT_THAT(sum.values(), ElementsAre(12, 0, 0, 1));
  EXPECT_THAT(level.values(), ElementsAre(7, 7, 7, 1));
  EXPECT_EQ(sum.start(), at(1000));
  EXPECT_EQ(sum.interval(), milliseconds(1));
}

TEST(TimelineTest, a_long_run_has_longer_intervals_and_loses_nothing) {
  Timeline sum, level(Timeline::Kind::level);
  for (std::int64_t ms = 0; ms < 10'000; ++ms) {
    sum.add(at(ms), 1);
    level.add(at(ms), static_cast<std::uint64_t>(ms));
  }
  EXPECT_LE(sum.values().size(), Timeline::kIntervals);
  EXPECT_EQ(sum.interval(), milliseconds(128));
  std::uint64_t all = 0;
  for (const std::uint64_t value : sum.values()) all += value;
  EXPECT_EQ(all, 10'000U);
  EXPECT_EQ(sum.values().front(), 128U);
  EXPECT_EQ(level.values().front(), 127U);  // what it was last
  EXPECT_EQ(level.values().back(), 9'999U);
}

TEST(TimelineTest, two_sums_are_one_from_the_first_of_both) {
  Timeline late, early;
  late.add(at(105), 1);
  early.add(at(100), 2);
  early.add(at(105), 4);
  late.add(early);
  EXPECT_EQ(late.start(), at(100));
  EXPECT_THAT(late.values(), ElementsAre(2, 0, 0, 0, 0, 5));
}

TEST(TimelineTest, travels_as_numbers) {
  Timeline sum;
  sum.add(at(7), 3);
  sum.add(at(9), 4);
  const Timeline again = Timeline::unpacked(sum.packed(), Timeline::Kind::sum);
  EXPECT_EQ(again.values(), sum.values());
  EXPECT_EQ(again.start(), sum.start());
  EXPECT_EQ(again.interval(), sum.interval());
  EXPECT_TRUE(Timeline::unpacked({}, Timeline::Kind::sum).empty());
  EXPECT_TRUE(Timeline::unpacked({1, 0, 5}, Timeline::Kind::sum).empty());
  EXPECT_TRUE(Timeline::unpacked(std::vector<std::uint64_t>(500, 1), Timeline::Kind::sum).empty());
}

}  // namespace
}  // namespace towpath::tools::replay
