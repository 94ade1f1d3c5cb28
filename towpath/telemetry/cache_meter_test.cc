#include <array>

#include <gtest/gtest.h>

#include <towpath/telemetry/cache_meter.h>
#include <towpath/telemetry/flight_recorder.h>

namespace towpath::telemetry {
namespace {

TEST(CacheMeterTest, each_place_is_counted_and_recorded_and_those_without_blocks_are_not) {
  Metrics metrics;
  ManualClock clock;
  alignas(64) std::array<std::byte, FlightRecorder::bytes_for(16)> memory{};
  FlightRecorder flight = *FlightRecorder::format(memory, clock);
  CacheMeter meter({.metrics = &metrics, .agent = "decode-0", .flight = &flight}, {"host", "disk"},
                   4096);
  meter.found(std::vector<std::uint64_t>{3, 0, 2});
  meter.found(std::vector<std::uint64_t>{0, 4, 0});
  const auto blocks = [&](const char* place) {
    return metrics
        .counter("towpath_cache_blocks_total", {{"agent", "decode-0"}, {"found_in", place}})
        .value();
  };
  EXPECT_EQ(blocks("host"), 3U);
  EXPECT_EQ(blocks("disk"), 4U);
  EXPECT_EQ(blocks("miss"), 2U);
  const auto records = flight.dump();
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[0].what, static_cast<std::uint32_t>(FlightEvent::blocks_found));
  EXPECT_EQ(records[0].args, (FlightRecord::Args{3, 0, 0, 3 * 4096}));
  EXPECT_EQ(records[1].args, (FlightRecord::Args{2, 2, 1, 2 * 4096}));
  EXPECT_EQ(records[2].args, (FlightRecord::Args{4, 1, 0, 4 * 4096}));
  EXPECT_NE(records[0].who, records[2].who);
}

TEST(CacheMeterTest, an_agent_s_name_is_the_label_of_its_other_metrics) {
  Metrics metrics;
  const std::string name = "\xff" + std::string(200, 'n');
  CacheMeter meter({.metrics = &metrics, .agent = name}, {"host"}, 4096);
  meter.found(std::vector<std::uint64_t>{3, 0});
  EXPECT_EQ(metrics
                .counter("towpath_cache_blocks_total",
                         {{"agent", name_label(name)}, {"found_in", "host"}})
                .value(),
            3U);
}

TEST(CacheMeterTest, without_metrics_and_recorder_nothing_happens) {
  CacheMeter meter({}, {"host"}, 4096);
  meter.found(std::vector<std::uint64_t>{1, 1});
  meter.waits(1, 1);
}

// The registry outlives a cache, and one that is made again counts from 0.
TEST(CacheMeterTest, evictions_over_quota_are_counted_through_the_lives_of_a_cache) {
  Metrics metrics;
  for (const std::uint64_t life : {1U, 2U}) {
    CacheMeter meter({.metrics = &metrics, .agent = "decode-0"}, {"host"}, 4096);
    for (const std::uint64_t evictions : {0U, 3U, 3U, 5U}) meter.over_quota(evictions);
    EXPECT_EQ(
        metrics.counter("towpath_cache_quota_evictions_total", {{"agent", "decode-0"}}).value(),
        5 * life);
  }
}

TEST(CacheMeterTest, who_waits_now_is_reported_by_direction) {
  Metrics metrics;
  CacheMeter meter({.metrics = &metrics, .agent = "decode-0"}, {"host"}, 4096);
  const auto waiting = [&](const char* direction) {
    return metrics
        .gauge("towpath_cache_waiting_blocks", {{"agent", "decode-0"}, {"direction", direction}})
        .value();
  };
  meter.waits(3, 70);
  EXPECT_EQ(waiting("promotion"), 3);
  EXPECT_EQ(waiting("demotion"), 70);
  meter.waits(0, 2);
  EXPECT_EQ(waiting("promotion"), 0);
  EXPECT_EQ(waiting("demotion"), 2);
}

}  // namespace
}  // namespace towpath::telemetry
