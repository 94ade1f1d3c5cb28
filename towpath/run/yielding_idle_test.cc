#include <gtest/gtest.h>

#include <towpath/run/yielding_idle.h>

namespace towpath::run {
namespace {

/// What is waited for is there after `time`, whether one gave way or not.
struct Wait {
  bool operator()(Duration time, bool comes = true) {
    gave = false;
    return way.yield_once(clock, [&] {
      gave = true;
      clock.advance(time);
      return comes;
    });
  }
  /// Waits without, before one that takes `time`.
  std::uint32_t passed(Duration time) {
    std::uint32_t waits = 0;
    while (!(*this)(time)) ++waits;
    return waits;
  }

  ManualClock clock;
  YieldingIdleStrategy way;
  bool gave = false;
};

constexpr Duration kShort = YieldingIdleStrategy::kLong - Duration(1);

TEST(YieldingIdleStrategyTest, reports_whether_it_came) {
  Wait wait;
  EXPECT_TRUE(wait(kShort));
  EXPECT_FALSE(wait(kShort, false));
  EXPECT_TRUE(wait(kShort)) << "too early is no harm";
  EXPECT_FALSE(wait(2 * YieldingIdleStrategy::kLong, false));
  EXPECT_TRUE(wait(kShort)) << "nor is a long one that missed nothing";
}

TEST(YieldingIdleStrategyTest, does_not_for_some_waits_where_a_third_takes_the_processor) {
  Wait wait;
  EXPECT_TRUE(wait(YieldingIdleStrategy::kLong)) << "it is there all the same";
  EXPECT_FALSE(wait(kShort));
  EXPECT_FALSE(wait.gave);
  EXPECT_EQ(wait.passed(kShort), YieldingIdleStrategy::kLeastDistrust - 1);
}

TEST(YieldingIdleStrategyTest, does_not_for_some_waits_where_nobody_takes_the_processor) {
  constexpr Duration kAlone = YieldingIdleStrategy::kInVain - Duration(1);
  for (const bool comes : {false, true}) {
    Wait wait;
    EXPECT_EQ(wait(kAlone, comes), comes);
    EXPECT_EQ(wait.passed(kShort), YieldingIdleStrategy::kLeastDistrust);
  }
  Wait at_once;
  EXPECT_TRUE(at_once(Duration(0))) << "a clock that stands still says nothing";
  EXPECT_TRUE(at_once(YieldingIdleStrategy::kInVain));
}

TEST(YieldingIdleStrategyTest, distrust_grows_with_each_and_shrinks_when_it_pays) {
  Wait wait;
  (void)wait.passed(YieldingIdleStrategy::kLong);
  EXPECT_EQ(wait.passed(YieldingIdleStrategy::kLong), YieldingIdleStrategy::kLeastDistrust);
  EXPECT_EQ(wait.passed(YieldingIdleStrategy::kLong), 2 * YieldingIdleStrategy::kLeastDistrust);
  for (int i = 0; i < 10; ++i) (void)wait.passed(YieldingIdleStrategy::kLong);
  EXPECT_EQ(wait.passed(YieldingIdleStrategy::kLong), YieldingIdleStrategy::kMostDistrust);
  for (int i = 0; i < 10; ++i) (void)wait.passed(kShort);
  (void)wait.passed(YieldingIdleStrategy::kLong);
  EXPECT_EQ(wait.passed(kShort), YieldingIdleStrategy::kLeastDistrust);
}

}  // namespace
}  // namespace towpath::run
