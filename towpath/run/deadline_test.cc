#include <gtest/gtest.h>

#include <towpath/run/deadline.h>

namespace towpath::run {
namespace {

TEST(DeadlineTest, expires_at_its_moment_and_not_before) {
  ManualClock clock;
  const auto deadline = Deadline::after(clock, Duration(10));
  EXPECT_FALSE(deadline.expired(clock));
  EXPECT_EQ(deadline.remaining(clock), Duration(10));
  clock.advance(Duration(9));
  EXPECT_FALSE(deadline.expired(clock));
  clock.advance(Duration(1));
  EXPECT_TRUE(deadline.expired(clock));
  clock.advance(Duration(5));
  EXPECT_EQ(deadline.remaining(clock), Duration::zero());
}

TEST(DeadlineTest, never_does_not_expire) {
  ManualClock clock;
  clock.advance(Duration(INT64_MAX - 1));
  ASSERT_EQ(clock.now(), Instant::never());
  EXPECT_FALSE(Deadline::never().expired(clock));
  EXPECT_EQ(Deadline::never().remaining(clock), Duration::max());
}

TEST(DeadlineTest, timeouts_that_do_not_fit_saturate) {
  ManualClock clock;
  EXPECT_TRUE(Deadline::after(clock, Duration::max()).is_never());
  EXPECT_TRUE(Deadline::after(clock, Duration(-5)).expired(clock));
  EXPECT_TRUE(Deadline::now().expired(clock));
  const ManualClock fresh;
  EXPECT_EQ(Deadline(Instant{INT64_MIN}).remaining(fresh), Duration::zero());
}

TEST(DeadlineTest, earlier_picks_the_one_that_comes_first) {
  const Deadline soon(Instant{5});
  EXPECT_EQ(Deadline::earlier(soon, Deadline::never()), soon);
  EXPECT_EQ(Deadline::earlier(Deadline::never(), soon), soon);
}

}  // namespace
}  // namespace towpath::run
