#include <vector>

#include <gtest/gtest.h>

#include <towpath/backend/request_progress.h>

namespace towpath::backend {
namespace {

const Status kBad = error(Code::io_error, "a bad block", "replace the disk");

class RequestProgressTest : public ::testing::Test {
 protected:
  void start(std::uint64_t length, std::uint64_t count, std::size_t copies = 1) {
    segments.assign(copies, Segment{.length = length, .count = count});
    progress.start(segments);
  }
  std::vector<Segment> segments;
  RequestProgress progress;
};

TEST_F(RequestProgressTest, nothing_wrong_is_ok) {
  start(100, 2);
  progress.moved(200);
  const auto outcome = progress.close(false);
  EXPECT_TRUE(outcome.status.ok());
  EXPECT_EQ(outcome.bytes, 200U);
  EXPECT_TRUE(outcome.failures.empty());
}

TEST_F(RequestProgressTest, a_range_is_reported_by_extent) {
  start(100, 4);
  progress.moved(150);
  progress.failed({0, 1, 50}, 250, kBad);
  const auto outcome = progress.close(false);
  EXPECT_EQ(outcome.status.code(), Code::io_error);
  EXPECT_EQ(outcome.status.cause(), kBad);
  EXPECT_EQ(outcome.status.hint(), "replace the disk");
  ASSERT_EQ(outcome.failures.size(), 3U);
  EXPECT_EQ(outcome.failures[0].extent, 1U);
  EXPECT_EQ(outcome.failures[0].bytes, 50U);
  EXPECT_EQ(outcome.failures[2].extent, 3U);
  EXPECT_EQ(outcome.failures[2].bytes, 0U);
}

TEST_F(RequestProgressTest, an_extent_that_misses_two_ranges_is_reported_once_from_the_first_on) {
  start(100, 1);
  progress.moved(75);
  progress.failed({0, 0, 80}, 20, kBad);
  progress.failed({0, 0, 10}, 5, kBad);
  const auto outcome = progress.close(false);
  EXPECT_EQ(outcome.bytes, 75U);
  ASSERT_EQ(outcome.failures.size(), 1U);
  EXPECT_EQ(outcome.failures[0].bytes, 10U);
}

// Or the descriptors at its begin would be taken for those that arrived.
TEST_F(RequestProgressTest, what_is_in_place_behind_a_hole_is_no_begin) {
  start(100, 1);
  progress.failed({0, 0, 0}, 40, kBad);
  progress.moved(60);
  const auto outcome = progress.close(false);
  EXPECT_EQ(outcome.bytes, 60U);
  ASSERT_EQ(outcome.failures.size(), 1U);
  EXPECT_EQ(outcome.failures[0].bytes, 0U);
}

TEST_F(RequestProgressTest, the_first_failures_are_kept_whatever_the_order) {
  start(1, 1000);
  for (std::uint64_t i = 1000; i-- > 0;) progress.failed({0, i, 0}, 1, kBad);
  const auto outcome = progress.close(false);
  ASSERT_EQ(outcome.failures.size(), backend::kMaxFailures);
  for (std::size_t i = 0; i < backend::kMaxFailures; ++i) EXPECT_EQ(outcome.failures[i].extent, i);
  EXPECT_NE(outcome.status.message().find("64 or more"), std::string_view::npos);
}

TEST_F(RequestProgressTest, a_range_goes_over_segments_and_empty_ones) {
  start(10, 1, 4);
  segments[1].length = 0;
  segments[2].count = 0;
  progress.failed({0, 0, 5}, 12, kBad);
  const auto outcome = progress.close(false);
  ASSERT_EQ(outcome.failures.size(), 2U);
  EXPECT_EQ(outcome.failures[0].bytes, 5U);
  EXPECT_EQ(outcome.failures[1].segment, 3U);
  EXPECT_EQ(outcome.failures[1].bytes, 0U);
}

TEST_F(RequestProgressTest, stopped_is_cancelled_and_names_no_extent) {
  start(100, 2);
  progress.moved(100);
  progress.failed({0, 1, 0}, 10, kBad);
  const auto outcome = progress.close(true);
  EXPECT_EQ(outcome.status.code(), Code::cancelled);
  EXPECT_EQ(outcome.bytes, 100U);
  EXPECT_TRUE(outcome.failures.empty());
}

TEST_F(RequestProgressTest, a_new_start_forgets) {
  start(100, 1);
  progress.failed({0, 0, 0}, 100, kBad);
  progress.start(segments);
  EXPECT_TRUE(progress.close(false).status.ok());
  EXPECT_EQ(progress.bytes(), 0U);
}

}  // namespace
}  // namespace towpath::backend
