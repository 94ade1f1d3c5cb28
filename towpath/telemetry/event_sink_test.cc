#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/telemetry/log.h>

namespace towpath::telemetry {
namespace {

TEST(EventTest, prints_as_one_line) {
  const Event event{.level = Level::warning,
                    .at = {},
                    .since_epoch = {},
                    .component = "listener",
                    .message = "client dropped",
                    .fields = {{"reason", "idle"}, {"bytes", "12"}}};
  EXPECT_EQ(to_string(event), "warning listener: client dropped {reason=idle, bytes=12}");
  EXPECT_EQ(name_of(static_cast<Level>(9)), "unknown");
}

TEST(CollectingSinkTest, keeps_events_up_to_its_limit_and_counts_the_rest) {
  CollectingSink sink(2);
  ManualClock clock;
  const Log log(sink, clock, "test");
  log.info("one");
  log.info("two");
  log.info("three");
  EXPECT_EQ(sink.events().size(), 2U);
  EXPECT_EQ(sink.dropped(), 1U);
  EXPECT_EQ(sink.count_of("tw"), 1U);
  sink.clear();
  EXPECT_EQ(sink.events().size(), 0U);
  EXPECT_EQ(sink.dropped(), 0U);
}

TEST(CollectingSinkTest, takes_events_from_many_threads) {
  CollectingSink sink;
  ManualClock clock;
  const Log log(sink, clock, "test");
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread)
      threads.emplace_back([&log] {
        for (int i = 0; i < 100; ++i) log.say_unlimited(Level::debug, "tick");
      });
  }
  EXPECT_EQ(sink.count_of("tick"), 400U);
}

TEST(LogTest, says_who_when_and_what) {
  CollectingSink sink;
  ManualClock clock;
  clock.advance(Duration(41));
  const Log log(sink, clock, "agent a");
  log.named("agent b").error("peer lost", {{"peer", "c"}});
  const auto events = sink.events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].level, Level::error);
  EXPECT_EQ(events[0].at, Instant{42});
  EXPECT_EQ(events[0].component, "agent b");
  EXPECT_THAT(events[0].fields, testing::ElementsAre(Field{"peer", "c"}));
}

TEST(LogTest, default_made_one_and_one_on_a_null_sink_are_silent) {
  NullSink sink;
  ManualClock clock;
  const Log to_nobody;
  const Log to_null(sink, clock, "x");
  EXPECT_FALSE(to_nobody.wants(Level::error));
  EXPECT_FALSE(to_null.wants(Level::error));
  to_nobody.error("nobody hears");
  to_null.error("nobody hears");
}

// As a peer makes a listener log.
void report_bad_frame(const Log& log) { log.warning("bad frame", {{"from", "7"}}); }

TEST(LogTest, flood_of_one_place_is_cut_and_counted_and_others_are_heard) {
  CollectingSink sink;
  ManualClock clock;
  const Log log(sink, clock, "listener");
  for (int i = 0; i < 100'000; ++i) report_bad_frame(log.named("copies share the limit"));
  EXPECT_EQ(sink.count_of("bad frame"), Log::kLimit.burst);
  log.warning("peer lost");
  EXPECT_EQ(sink.count_of("peer lost"), 1U);
  sink.clear();
  clock.advance(Log::kLimit.every);
  report_bad_frame(log);
  const auto events = sink.events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_THAT(events[0].fields,
              testing::ElementsAre(Field{"from", "7"}, Field{"suppressed", "99990"}));
}

TEST(LogTest, what_was_suppressed_last_is_counted_when_the_log_ends) {
  CollectingSink sink;
  ManualClock clock;
  {
    const Log log(sink, clock, "listener");
    for (int i = 0; i < 15; ++i) report_bad_frame(log);
  }
  const auto events = sink.events();
  ASSERT_EQ(events.size(), Log::kLimit.burst + 1);
  EXPECT_EQ(events.back().message, "bad frame");
  EXPECT_THAT(events.back().fields, testing::ElementsAre(Field{"suppressed", "5"}));
}

TEST(LogTest, what_was_suppressed_is_counted_once_when_it_is_asked_for) {
  CollectingSink sink;
  ManualClock clock;
  {
    const Log log(sink, clock, "listener");
    for (int i = 0; i < 15; ++i) report_bad_frame(log);
    for (int turn = 0; turn < 2; ++turn) log.report_suppressed();
    EXPECT_EQ(sink.events().size(), Log::kLimit.burst + 1);
  }
  EXPECT_EQ(sink.events().size(), Log::kLimit.burst + 1);
  EXPECT_THAT(sink.events().back().fields, testing::ElementsAre(Field{"suppressed", "5"}));
}

TEST(LogTest, list_of_ones_own_is_written_whole) {
  CollectingSink sink;
  ManualClock clock;
  const Log log(sink, clock, "configuration");
  for (int i = 0; i < 50; ++i) log.say_unlimited(Level::warning, cat("setting ", i));
  EXPECT_EQ(sink.events().size(), 50U);
}

}  // namespace
}  // namespace towpath::telemetry
