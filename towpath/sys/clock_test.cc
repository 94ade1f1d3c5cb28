#include <gtest/gtest.h>

#include <towpath/sys/clock.h>
#include <towpath/sys/random.h>

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

TEST(RandomTest, numbers_differ_and_are_not_zero) {
  const std::uint64_t first = random_u64();
  EXPECT_NE(first, 0u);
  EXPECT_NE(first, random_u64());
}

}  // namespace
}  // namespace towpath::sys
