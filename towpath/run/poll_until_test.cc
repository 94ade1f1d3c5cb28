#include <atomic>

#include <gtest/gtest.h>

#include <towpath/run/poll_until.h>
#include <towpath/run/worker.h>

namespace towpath::run {
namespace {

TEST(PollUntilTest, asks_until_it_is_true) {
  int asked = 0;
  EXPECT_TRUE(poll_until([&] { return ++asked == 200; }, std::chrono::minutes(10)));
  EXPECT_EQ(asked, 200);
}

TEST(PollUntilTest, what_never_comes_true_ends_and_is_asked_last) {
  int asked = 0;
  EXPECT_FALSE(poll_until([&] { return ++asked < 0; }, std::chrono::milliseconds(20)));
  EXPECT_GT(asked, 80) << "it looks before it sleeps";
  EXPECT_LT(asked, 200) << "it sleeps between questions";
}

TEST(PollUntilTest, no_time_is_a_look) {
  bool ready = true;
  EXPECT_TRUE(poll_until([&] { return ready; }, Duration(0)));
  ready = false;
  EXPECT_FALSE(poll_until([&] { return ready; }, Duration(0)));
}

TEST(PollUntilTest, sees_what_another_thread_does) {
  std::atomic<bool> ready{false};
  auto other = Worker::start("run-test", [&](const StopToken&) {
    nap(std::chrono::milliseconds(5));
    ready = true;
  });
  ASSERT_TRUE(other.ok());
  EXPECT_TRUE(poll_until([&] { return ready.load(); }, std::chrono::minutes(10)));
}

}  // namespace
}  // namespace towpath::run
