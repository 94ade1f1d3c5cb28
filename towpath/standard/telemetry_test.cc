#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/standard/telemetry.h>
#include <towpath/sys/clock.h>
#include <towpath/telemetry/log.h>

namespace towpath::standard {
namespace {

using ::testing::HasSubstr;

constexpr const char* kNoDirectory = "/proc/no";

TEST(TelemetryTest, what_cannot_be_opened_is_an_error_to_who_insists) {
  const sys::SystemClock clock;
  const auto made = Telemetry::open({.agent = "a", .flight_directory = kNoDirectory}, clock);
  EXPECT_FALSE(made.ok());
  EXPECT_THAT(made.status().to_string(), HasSubstr(kNoDirectory));
}

TEST(TelemetryTest, what_nobody_insists_on_is_left_out_with_a_warning) {
  const sys::SystemClock clock;
  telemetry::CollectingSink sink;
  const auto made = Telemetry::open({.agent = "a",
                                     .flight_directory = kNoDirectory,
                                     .prometheus = PrometheusOptions{.address = "192.0.2.1"},
                                     .required = false,
                                     .log = telemetry::Log(sink, clock, "test")},
                                    clock);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  EXPECT_EQ((*made)->flight_path(), "");
  EXPECT_EQ((*made)->prometheus_url(), "");
  EXPECT_EQ(sink.count_of("the flight recorder is left out"), 1U);
  EXPECT_EQ(sink.count_of("the Prometheus endpoint is left out"), 1U);
}

}  // namespace
}  // namespace towpath::standard
