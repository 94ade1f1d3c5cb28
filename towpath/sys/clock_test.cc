#include <gtest/gtest.h>

#include <towpath/sys/clock.h>

namespace towpath::sys {
namespace {

TEST(ClockTest, never_goes_back_and_moves_on) {
  const SystemClock clock;
  const Instant start = clock.now();
  Instant last = start;
  while (last == start) {
    const Instant next = clock.now();
    ASSERT_GE(next, last);
    last = next;
  }
}

TEST(ClockTest, the_epoch_is_the_unix_one) {
  EXPECT_GT(SystemClock().since_epoch(), std::chrono::hours(24 * 365 * 50));
}

}  // namespace
}  // namespace towpath::sys
