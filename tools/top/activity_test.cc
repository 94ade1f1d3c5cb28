#include "tools/top/activity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/telemetry/flight_recorder.h>

#include "tools/top/screen.h"

namespace towpath::tools {
namespace {

using std::chrono::seconds;
using telemetry::FlightEvent;
using telemetry::FlightFlow;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Instant at(std::int64_t s) { return Instant{s * 1'000'000'000}; }

/// What a recorder says of one backend (name 1) and one peer (name 2).
class Story {
 public:
  Story() { log_.names = {"shm", "decode-0"}; }

  std::uint64_t add(Instant when, FlightEvent what, telemetry::FlightRecord::Args args = {}) {
    log_.records.push_back({.ticket = log_.recorded,
                            .at = when,
                            .what = static_cast<std::uint32_t>(what),
                            .who = 2,
                            .args = args});
    return log_.recorded++;
  }
  std::uint64_t post(Instant when, std::uint64_t bytes) {
    return add(when, FlightEvent::transfer_posted, {bytes, 1, flow(Outcome::none)});
  }
  void end(Instant when, std::uint64_t ticket, std::uint64_t bytes, Outcome outcome) {
    add(when, FlightEvent::transfer_ended, {ticket, bytes, 5000, flow(outcome)});
  }
  telemetry::FlightLog& log() { return log_; }

 private:
  static std::uint64_t flow(Outcome outcome) {
    return FlightFlow{.op = TransferOp::read, .outcome = outcome, .backend = 1}.packed();
  }
  telemetry::FlightLog log_;
};

const Activity::Path kPull{"decode-0", "shm", "read"};

TEST(ActivityTest, what_ended_in_the_extent_counts_and_what_did_not_is_in_flight) {
  Story story;
  const auto before = story.post(at(1), 100);
  story.end(at(2), before, 100, Outcome::done);  // too early to count
  const auto good = story.post(at(9), 1000);
  const auto bad = story.post(at(9), 2000);
  story.end(at(11), good, 1000, Outcome::done);
  story.end(at(12), bad, 0, Outcome::failed);
  story.post(at(13), 4000);
  const Activity seen = activity_of(story.log(), at(10), at(14));
  ASSERT_TRUE(seen.paths.contains(kPull));
  const Activity::Figures& figures = seen.paths.at(kPull);
  EXPECT_EQ(figures.ended, 2U);
  EXPECT_EQ(figures.failed, 1U);
  EXPECT_EQ(figures.bytes, 1000U);
  EXPECT_EQ(figures.in_flight, 1U);
  EXPECT_EQ(figures.bytes_in_flight, 4000U);
  EXPECT_EQ(figures.oldest, at(13));
  EXPECT_EQ(seen.covered(), seconds(4));
  EXPECT_FALSE(seen.overtaken);
}

TEST(ActivityTest, what_a_cache_found_is_reported_by_tier) {
  Story story;
  story.log().names = {"miss", "host"};
  story.add(at(8), FlightEvent::blocks_found, {99, 0, 0});  // too early to count
  story.add(at(11), FlightEvent::blocks_found, {30, 0, 0, 8'000'000'000});
  story.log().records.push_back({.at = at(12), .what = 12, .who = 1, .args = {10, 2, 1}});
  const Activity seen = activity_of(story.log(), at(10), at(14));
  ASSERT_EQ(seen.found.size(), 2U);
  EXPECT_EQ(seen.found.at({0, "host"}).blocks, 30U);
  EXPECT_EQ(seen.found.at({0, "host"}).bytes, 8'000'000'000U);
  EXPECT_EQ(seen.found.at({2, "miss"}).blocks, 10U);
  EXPECT_EQ(seen.missed, 10U);
  const std::string screen = screen_text({.name = "decode-0", .activity = seen}, Colours::no);
  EXPECT_THAT(screen, HasSubstr("host                    8  2.00 GB/s  75.0 %"));
  EXPECT_THAT(screen, HasSubstr("miss                    3          -  25.0 %"))
      << "an older release did not report bytes";
  EXPECT_THAT(screen, HasSubstr("hit ratio 75.0 %"));
}

TEST(ActivityTest, a_ring_that_is_too_small_shortens_the_extent) {
  Story story;
  story.end(at(12), 7, 1000, Outcome::done);
  story.log().recorded = 5000;
  const Activity seen = activity_of(story.log(), at(10), at(14));
  EXPECT_TRUE(seen.overtaken);
  EXPECT_EQ(seen.covered(), seconds(2));
}

TEST(ActivityTest, talks_losses_and_the_farewell_are_seen) {
  Story story;
  story.add(at(1), FlightEvent::notification_sent, {10});
  story.add(at(11), FlightEvent::notification_sent, {10});
  story.add(at(11), FlightEvent::notification_received, {10});
  story.add(at(12), FlightEvent::peer_lost);
  story.add(at(12), FlightEvent::agent_closed);
  const Activity seen = activity_of(story.log(), at(10), at(14));
  EXPECT_EQ(seen.talks.at("decode-0").sent, 1U);
  EXPECT_EQ(seen.talks.at("decode-0").received, 1U);
  EXPECT_THAT(seen.lost, ElementsAre("decode-0"));
  EXPECT_TRUE(seen.closed);
}

TEST(ActivityTest, the_screen_reports_rates_of_the_time_that_is_covered) {
  Story story;
  for (int i = 0; i < 8; ++i)
    story.end(at(11), static_cast<std::uint64_t>(i), 1'000'000'000, Outcome::done);
  const NodeView node{.name = "prefill",
                      .process = 7,
                      .runs = true,
                      .activity = activity_of(story.log(), at(10), at(14))};
  const std::string text = screen_text(node, Colours::no);
  EXPECT_THAT(text, HasSubstr("process 7, runs; 8 records in 4.00 s"));
  EXPECT_THAT(text, ::testing::ContainsRegex("decode-0 +shm +read +2 +2.00 GB/s +5.00 us"));
}

TEST(ActivityTest, an_empty_recorder_has_nothing_to_say) {
  const Activity seen = activity_of({}, at(0), at(0));
  EXPECT_EQ(seen.covered(), seconds(0));
  EXPECT_THAT(screen_text({.name = "n", .activity = seen}, Colours::yes),
              HasSubstr("no transfers"));
}

}  // namespace
}  // namespace towpath::tools
