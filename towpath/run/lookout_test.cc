#include <gtest/gtest.h>

#include <towpath/run/lookout.h>

namespace towpath::run {
namespace {

using std::chrono::microseconds;

/// How often it looked for what does not come; each look takes `each`.
std::uint32_t count_looks(Lookout& lookout, Duration each = microseconds(1)) {
  ManualClock clock;
  std::uint32_t looks = 0;
  EXPECT_FALSE(lookout.look(clock, [&] {
    ++looks;
    clock.advance(each);
    return false;
  }));
  return looks;
}

TEST(LookoutTest, looks_more_often_while_waits_are_short_and_not_after_a_long_one) {
  Lookout lookout;
  EXPECT_EQ(count_looks(lookout), 0U);
  lookout.learn(Lookout::kSoon - Duration(1));
  const std::uint32_t first = count_looks(lookout);
  EXPECT_GT(first, 0U);
  lookout.learn(Duration(0));  // says nothing
  EXPECT_EQ(count_looks(lookout), first);
  for (int i = 0; i < 20; ++i) lookout.learn(microseconds(1));
  EXPECT_EQ(count_looks(lookout), Lookout::kMostLooks);
  lookout.learn(Lookout::kSoon);
  EXPECT_EQ(count_looks(lookout), 0U);
}

TEST(LookoutTest, ends_when_it_comes) {
  Lookout lookout;
  lookout.learn(microseconds(1));
  int looks = 0;
  EXPECT_TRUE(lookout.look(ManualClock(), [&] { return ++looks == 2; }));
  EXPECT_EQ(looks, 2);
}

TEST(LookoutTest, does_not_look_for_long_where_others_want_the_core) {
  Lookout lookout;
  lookout.learn(microseconds(1));
  EXPECT_EQ(count_looks(lookout, Lookout::kCrowded), 2U) << "one, and whether it came meanwhile";
  for (std::uint32_t i = 0; i < Lookout::kDistrust; ++i) lookout.learn(microseconds(1));
  EXPECT_EQ(count_looks(lookout), 0U);
  lookout.learn(microseconds(1));
  EXPECT_GT(count_looks(lookout), 0U);
}

TEST(LookoutTest, a_core_that_was_given_to_who_brought_it_about_was_well_given) {
  Lookout lookout;
  lookout.learn(microseconds(1));
  ManualClock clock;
  int looks = 0;
  const auto comes_after = [&](Duration time) {
    return lookout.look(clock, [&, time] {
      if (looks++ % 2 == 1) return true;
      clock.advance(time);
      return false;
    });
  };
  EXPECT_TRUE(comes_after(Lookout::kCrowded));
  EXPECT_GT(lookout.looks(), 0U);
  EXPECT_FALSE(comes_after(Lookout::kSoon)) << "who sleeps is woken before that";
  EXPECT_EQ(lookout.looks(), 0U);
}

}  // namespace
}  // namespace towpath::run
