#include <array>
#include <set>

#include <gtest/gtest.h>

#include <towpath/shmem/stopped_pes.h>

namespace towpath::shmem {
namespace {

using std::chrono::seconds;

class StoppedPesTest : public ::testing::Test {
 protected:
  std::optional<std::uint32_t> look_after(Duration passed) {
    now_ = now_ + passed;
    return pes_.look(now_, awaited_, [this](std::uint32_t pe) {
      ++looks_;
      return stopped_.count(pe) != 0;
    });
  }

  const std::array<std::int32_t, 2> awaited_ = {1, 2};
  std::set<std::uint32_t> stopped_;
  StoppedPes pes_{seconds(5)};
  Instant now_ = Instant{} + seconds(100);
  int looks_ = 0;
};

TEST_F(StoppedPesTest, one_that_stands_still_for_the_timeout_is_found) {
  stopped_ = {2};
  for (int second = 0; second < 5; ++second) EXPECT_EQ(look_after(seconds(1)), std::nullopt);
  EXPECT_EQ(look_after(seconds(1)), 2U);
}

TEST_F(StoppedPesTest, one_that_goes_on_is_not) {
  stopped_ = {1};
  for (int second = 0; second < 5; ++second) (void)look_after(seconds(1));
  stopped_.clear();
  EXPECT_EQ(look_after(seconds(1)), std::nullopt);
  stopped_ = {1};
  for (int second = 0; second < 5; ++second) EXPECT_EQ(look_after(seconds(1)), std::nullopt);
}

TEST_F(StoppedPesTest, a_side_that_was_stopped_itself_begins_anew) {
  stopped_ = {1};
  EXPECT_EQ(look_after(seconds(1)), std::nullopt);
  EXPECT_EQ(look_after(seconds(60)), std::nullopt);
  for (int second = 0; second < 4; ++second) EXPECT_EQ(look_after(seconds(1)), std::nullopt);
  EXPECT_EQ(look_after(seconds(1)), 1U);
}

TEST_F(StoppedPesTest, it_looks_five_times_in_a_timeout) {
  for (int i = 0; i < 5000; ++i) (void)look_after(std::chrono::milliseconds(1));
  EXPECT_EQ(looks_, 2 * 5);
}

}  // namespace
}  // namespace towpath::shmem
