#include <atomic>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>

#include <towpath/run/eventually.h>
#include <towpath/run/fork_join_pool.h>

namespace towpath::run {
namespace {

TEST(ForkJoinPoolTest, each_part_is_done_once_before_share_returns) {
  ForkJoinPool pool("crew", 3);
  ASSERT_TRUE(pool.start().ok());
  EXPECT_EQ(pool.members(), 3U);
  for (int round = 0; round < 2000; ++round) {
    std::vector<int> done(1 + static_cast<std::size_t>(round) % 6);  // more parts than threads, too
    if (round % 500 == 499) eventually([&] { return pool.asleep() == pool.members(); });
    pool.share(done.size(), [&](std::size_t part) { ++done[part]; });
    ASSERT_EQ(done, std::vector<int>(done.size(), 1)) << "round " << round;
  }
}

TEST(ForkJoinPoolTest, a_hand_that_sleeps_is_woken_and_works_at_the_same_time) {
  ForkJoinPool pool("crew", 1);
  ASSERT_TRUE(pool.start().ok());
  ASSERT_TRUE(eventually([&] { return pool.asleep() == 1; }));
  std::atomic<int> begun{0};
  // The caller waits for its hand: it would wait indefinitely if it had to do both.
  const std::size_t helped = pool.share(2, [&](std::size_t) {
    ++begun;
    while (begun < 2) ::sched_yield();
  });
  EXPECT_EQ(helped, 1U);
}

TEST(ForkJoinPoolTest, what_a_hand_is_in_the_middle_of_is_waited_for) {
  ForkJoinPool pool("crew", 1);
  ASSERT_TRUE(pool.start().ok());
  std::atomic<bool> begun{false};
  std::atomic<bool> caller_waits{false};
  bool done = false;
  pool.share(2, [&](std::size_t part) {
    if (part == 0) {
      while (!begun) ::sched_yield();
      caller_waits = true;
      return;
    }
    begun = true;
    while (!caller_waits) ::sched_yield();
    for (int i = 0; i < 10'000; ++i) ::sched_yield();
    done = true;
  });
  EXPECT_TRUE(done);
}

TEST(ForkJoinPoolTest, without_members_the_caller_does_all) {
  ForkJoinPool pool("crew", 2);  // not started
  std::vector<int> done(3);
  EXPECT_EQ(pool.share(3, [&](std::size_t part) { ++done[part]; }), 0U);
  EXPECT_EQ(done, std::vector<int>(3, 1));
}

}  // namespace
}  // namespace towpath::run
