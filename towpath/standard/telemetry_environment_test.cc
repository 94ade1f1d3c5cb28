#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/standard/telemetry_environment.h>

namespace towpath::standard {
namespace {

using ::testing::HasSubstr;

TEST(TelemetryEnvironmentTest, silence_leaves_the_decision_to_the_code) {
  const auto reported = telemetry_from({{"PATH", "/bin"}, {"NIXL_TELEMETRY_ENABLE", ""}}).value();
  EXPECT_EQ(reported.enabled, std::nullopt);
  EXPECT_TRUE(reported.decide(true));
  EXPECT_FALSE(reported.decide(false));
  EXPECT_TRUE(reported.remarks.empty());
}

TEST(TelemetryEnvironmentTest, explicit_word_beats_the_code) {
  for (const char* no : {"0", "false", "No", "OFF", "disable"})
    EXPECT_FALSE(telemetry_from({{"NIXL_TELEMETRY_ENABLE", no}}).value().decide(true)) << no;
  for (const char* yes : {"1", "TRUE", "yes", "on", "Enable"})
    EXPECT_TRUE(telemetry_from({{"NIXL_TELEMETRY_ENABLE", yes}}).value().decide(false)) << yes;
}

TEST(TelemetryEnvironmentTest, every_setting_of_nixl_arrives) {
  const auto reported =
      telemetry_from({{"NIXL_TELEMETRY_DIR", "/var/tmp/t"},
                      {"NIXL_TELEMETRY_BUFFER_SIZE", "128"},
                      {"NIXL_TELEMETRY_EXPORTER", "Prometheus"},
                      {"NIXL_TELEMETRY_PROMETHEUS_PORT", "9191"},
                      {"NIXL_TELEMETRY_ENABLED_METRICS", "agent_tx_*,agent_errors"},
                      {"NIXL_TELEMETRY_HISTOGRAM_BUCKETS_US", "10,200"}})
          .value();
  EXPECT_EQ(reported.options.flight_directory, "/var/tmp/t");
  EXPECT_EQ(reported.options.flight_records, 128U);
  ASSERT_TRUE(reported.options.prometheus);
  EXPECT_EQ(reported.options.prometheus->port, 9191);
  EXPECT_EQ(reported.options.prometheus->address, "127.0.0.1") << "this machine only";
  EXPECT_THAT(reported.options.prometheus->enabled,
              ::testing::ElementsAre("agent_tx_*", "agent_errors"));
  EXPECT_THAT(reported.options.time_bounds.all(), ::testing::ElementsAre(10'000, 200'000));
  const auto wide = telemetry_from({{"NIXL_TELEMETRY_EXPORTER", "prometheus"},
                                    {"NIXL_TELEMETRY_PROMETHEUS_LOCAL", "0"}})
                        .value();
  EXPECT_EQ(wide.options.prometheus->address, "0.0.0.0");
}

TEST(TelemetryEnvironmentTest, port_without_the_exporter_opens_nothing) {
  const auto reported = telemetry_from({{"NIXL_TELEMETRY_PROMETHEUS_PORT", "9191"}}).value();
  EXPECT_FALSE(reported.options.prometheus);
}

TEST(TelemetryEnvironmentTest, our_names_win_over_those_of_nixl) {
  const auto reported =
      telemetry_from({{"NIXL_TELEMETRY_DIR", "theirs"}, {"TOWPATH_TELEMETRY_DIR", "ours"}}).value();
  EXPECT_EQ(reported.options.flight_directory, "ours");
}

TEST(TelemetryEnvironmentTest, what_has_no_effect_is_reported) {
  const auto reported =
      telemetry_from({{"NIXL_TELEMETRY_RUN_INTERVAL", "100"}, {"NIXL_TELEMETRY_ENABEL", "1"}})
          .value();
  EXPECT_THAT(reported.remarks,
              ::testing::ElementsAre(Remark{"NIXL_TELEMETRY_ENABEL", "is not known here"},
                                     Remark{"NIXL_TELEMETRY_RUN_INTERVAL", "has no effect here"}));
}

TEST(TelemetryEnvironmentTest, place_for_figures_that_nobody_asks_for_is_remarked_on) {
  for (const auto& [variable, value] : {std::pair("NIXL_TELEMETRY_DIR", "/var/tmp/t"),
                                        std::pair("NIXL_TELEMETRY_EXPORTER", "prometheus")}) {
    Environment environment{{variable, value}};
    const auto reported = telemetry_from(environment).value();
    ASSERT_TRUE(reported.remark_on(false));
    EXPECT_EQ(reported.remark_on(false)->variable, variable);
    EXPECT_THAT(reported.remark_on(false)->why, HasSubstr("TOWPATH_TELEMETRY_ENABLE=1"));
    EXPECT_FALSE(reported.remark_on(true)) << "it is opened";
    for (const char* decided : {"0", "1"}) {
      environment["NIXL_TELEMETRY_ENABLE"] = decided;
      EXPECT_FALSE(telemetry_from(environment).value().remark_on(false)) << decided;
    }
  }
  EXPECT_FALSE(telemetry_from({{"NIXL_TELEMETRY_EXPORTER", "prometheus"},
                               {"TOWPATH_TELEMETRY_EXPORTER", "nop"}})
                   .value()
                   .remark_on(false));
}

TEST(TelemetryEnvironmentTest, value_that_makes_no_sense_is_an_error_that_names_it) {
  for (const auto& [name, value] :
       {std::pair("ENABLE", "maybe"), std::pair("BUFFER_SIZE", "0"),
        std::pair("BUFFER_SIZE", "many"), std::pair("BUFFER_SIZE", "99999999999"),
        std::pair("EXPORTER", "pigeon"), std::pair("PROMETHEUS_PORT", "65536"),
        std::pair("PROMETHEUS_PORT", "-1"), std::pair("PROMETHEUS_LOCAL", "2"),
        std::pair("ENABLED_METRICS", ","), std::pair("HISTOGRAM_BUCKETS_US", "20,10"),
        std::pair("HISTOGRAM_BUCKETS_US", ","),
        std::pair("HISTOGRAM_BUCKETS_US", "1,99999999999999999999")}) {
    const std::string variable = std::string("NIXL_TELEMETRY_") + name;
    const auto reported = telemetry_from({{variable, value}});
    EXPECT_EQ(reported.code(), Code::invalid_argument) << variable << "=" << value;
    EXPECT_THAT(std::string(reported.status().message()), HasSubstr(variable + "='" + value));
  }
}

}  // namespace
}  // namespace towpath::standard
