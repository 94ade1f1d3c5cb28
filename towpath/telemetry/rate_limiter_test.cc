#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/telemetry/log.h>

namespace towpath::telemetry {
namespace {

using std::chrono::milliseconds;

TEST(RateLimiterTest, admits_a_burst_then_one_per_period) {
  ManualClock clock;
  RateLimiter limiter(clock, {.burst = 3, .every = milliseconds(10)});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(limiter.admit()) << i;
  EXPECT_FALSE(limiter.admit());
  clock.advance(milliseconds(9));
  EXPECT_FALSE(limiter.admit());
  clock.advance(milliseconds(1));
  EXPECT_TRUE(limiter.admit());
  EXPECT_FALSE(limiter.admit());
  EXPECT_EQ(limiter.take_suppressed(), 3U);
  EXPECT_EQ(limiter.take_suppressed(), 0U);
}

TEST(RateLimiterTest, rest_fills_the_bucket_but_not_beyond_its_burst) {
  ManualClock clock;
  RateLimiter limiter(clock, {.burst = 2, .every = milliseconds(10)});
  clock.advance(std::chrono::hours(1));
  EXPECT_TRUE(limiter.admit());
  EXPECT_TRUE(limiter.admit());
  EXPECT_FALSE(limiter.admit());
}

TEST(RateLimiterTest, without_a_period_there_is_no_limit) {
  ManualClock clock;
  RateLimiter limiter(clock, {.burst = 1, .every = Duration::zero()});
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(limiter.admit());
}

TEST(RateLimiterTest, extreme_options_neither_wrap_nor_lock_out) {
  ManualClock clock;
  RateLimiter rare(clock, {.burst = UINT32_MAX, .every = Duration::max()});
  EXPECT_TRUE(rare.admit());
  RateLimiter none(clock, {.burst = 0, .every = milliseconds(1)});
  EXPECT_TRUE(none.admit()) << "a burst of 0 counts as 1";
}

TEST(RateLimiterTest, threads_together_get_no_more_than_the_burst) {
  ManualClock clock;
  RateLimiter limiter(clock, {.burst = 50, .every = milliseconds(10)});
  std::atomic<int> admitted{0};
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread)
      threads.emplace_back([&] {
        for (int i = 0; i < 100; ++i) admitted += limiter.admit() ? 1 : 0;
      });
  }
  EXPECT_EQ(admitted, 50);
  EXPECT_EQ(limiter.take_suppressed(), 350U);
}

}  // namespace
}  // namespace towpath::telemetry
