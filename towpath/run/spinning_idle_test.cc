#include <gtest/gtest.h>

#include <towpath/run/spinning_idle.h>

namespace towpath::run {
namespace {

using std::chrono::microseconds;

/// How often it looked for what does not come; each look takes `each`.
std::uint32_t count_looks(SpinningIdleStrategy& spinning, Duration each = microseconds(1)) {
  ManualClock clock;
  std::uint32_t looks = 0;
  EXPECT_FALSE(spinning.look(clock, [&] {
    ++looks;
    clock.advance(each);
    return false;
  }));
  return looks;
}

TEST(SpinningIdleStrategyTest, looks_more_often_while_waits_are_short_and_not_after_a_long_one) {
  SpinningIdleStrategy spinning;
  EXPECT_EQ(count_looks(spinning), 0U);
  spinning.learn(SpinningIdleStrategy::kSoon - Duration(1));
  const std::uint32_t first = count_looks(spinning);
  EXPECT_GT(first, 0U);
  spinning.learn(Duration(0));  // says nothing
  EXPECT_EQ(count_looks(spinning), first);
  for (int i = 0; i < 20; ++i) spinning.learn(microseconds(1));
  EXPECT_EQ(count_looks(spinning), SpinningIdleStrategy::kMostLooks);
  spinning.learn(SpinningIdleStrategy::kSoon);
  EXPECT_EQ(count_looks(spinning), 0U);
}

TEST(SpinningIdleStrategyTest, ends_when_it_comes) {
  SpinningIdleStrategy spinning;
  spinning.learn(microseconds(1));
  int looks = 0;
  EXPECT_TRUE(spinning.look(ManualClock(), [&] { return ++looks == 2; }));
  EXPECT_EQ(looks, 2);
}

TEST(SpinningIdleStrategyTest, does_not_look_for_long_where_others_want_the_core) {
  SpinningIdleStrategy spinning;
  spinning.learn(microseconds(1));
  EXPECT_EQ(count_looks(spinning, SpinningIdleStrategy::kCrowded), 2U)
      << "one, and whether it came meanwhile";
  for (std::uint32_t i = 0; i < SpinningIdleStrategy::kDistrust; ++i)
    spinning.learn(microseconds(1));
  EXPECT_EQ(count_looks(spinning), 0U);
  spinning.learn(microseconds(1));
  EXPECT_GT(count_looks(spinning), 0U);
}

TEST(SpinningIdleStrategyTest, a_core_that_was_given_to_who_brought_it_about_was_well_given) {
  SpinningIdleStrategy spinning;
  spinning.learn(microseconds(1));
  ManualClock clock;
  int looks = 0;
  const auto comes_after = [&](Duration time) {
    return spinning.look(clock, [&, time] {
      if (looks++ % 2 == 1) return true;
      clock.advance(time);
      return false;
    });
  };
  EXPECT_TRUE(comes_after(SpinningIdleStrategy::kCrowded));
  EXPECT_GT(spinning.looks(), 0U);
  EXPECT_FALSE(comes_after(SpinningIdleStrategy::kSoon)) << "who sleeps is woken before that";
  EXPECT_EQ(spinning.looks(), 0U);
}

}  // namespace
}  // namespace towpath::run
