// What a scheduler makes of a worker that reports all it has again.
#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/kv/connector/scheduler.h>

namespace towpath::kv {
namespace {

using ::testing::SizeIs;

// Beyond what is kept for a caller that takes no events.
TEST(ResyncTest, no_event_of_a_large_report_is_dropped) {
  constexpr std::size_t kMany = 100'000;
  auto scheduler = ConnectorScheduler::make({.lasting_events = true}).value();
  WorkerReport report{.is_first = true, .stored = std::vector<BlockHash>(kMany)};
  std::iota(report.stored.begin(), report.stored.end(), BlockHash{1});
  report.lasting = report.stored;
  ASSERT_TRUE(scheduler.update(report).ok());
  EXPECT_THAT(scheduler.take_events(), SizeIs(2 * kMany));
  ASSERT_TRUE(scheduler.update(report).ok());
  EXPECT_THAT(scheduler.take_events(), SizeIs(4 * kMany)) << "all went, and came back";
  ASSERT_TRUE(scheduler.update({.is_first = true}).ok());
  EXPECT_THAT(scheduler.take_events(), SizeIs(2 * kMany)) << "all went";
}

}  // namespace
}  // namespace towpath::kv
