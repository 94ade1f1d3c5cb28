#include <algorithm>
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/standard/configuration.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::standard {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ConfigurationTest : public testing::Test {
 protected:
  Result<Configuration> configured(const std::string& file, const Environment& environment = {}) {
    std::ofstream(path_) << file;
    return configure(environment, path_);
  }
  sys::TemporaryDirectory directory_ = sys::TemporaryDirectory::create().value();
  const std::string path_ = directory_.path() + "/nixl.cfg";
};

TEST_F(ConfigurationTest, file_says_what_the_environment_does_not) {
  const auto reported = configured(
                            "NIXL_ETCD_ENDPOINTS = \"http://a:1\"\n"
                            "NIXL_TELEMETRY_ENABLE = true\n"
                            "NIXL_TELEMETRY_BUFFER_SIZE = 128\n")
                            .value();
  EXPECT_THAT(reported.settings.etcd_endpoints, ElementsAre("http://a:1"));
  EXPECT_TRUE(reported.telemetry.decide(false));
  EXPECT_EQ(reported.telemetry.options.flight_records, 128U);
  EXPECT_TRUE(reported.warnings.empty());
}

TEST_F(ConfigurationTest, variable_wins_over_the_file_whatever_its_prefix) {
  const auto reported = configured(
                            "TOWPATH_ETCD_NAMESPACE = \"/file\"\n"
                            "TOWPATH_TELEMETRY_ENABLE = true\n"
                            "NIXL_LOG_LEVEL = \"TRACE\"\n",
                            {{"NIXL_ETCD_NAMESPACE", "/variable"},
                             {"NIXL_TELEMETRY_ENABLE", "0"},
                             {"TOWPATH_LOG_LEVEL", "ERROR"}})
                            .value();
  EXPECT_EQ(reported.settings.etcd_namespace, "/variable");
  EXPECT_FALSE(reported.telemetry.decide(true));
  EXPECT_EQ(reported.settings.log_level, telemetry::Level::error);
}

TEST_F(ConfigurationTest, warnings_say_where_it_stands) {
  const auto reported = configured(
                            "NIXL_SPEED = 1\n"
                            "NIXL_TELEMETRY_ENABEL = true\n"
                            "speed = 2\n",
                            {{"NIXL_SPED", "high"}, {"TOWPATH_LOG_LEVEL", "LOUD"}})
                            .value();
  EXPECT_THAT(
      reported.warnings,
      ElementsAre(HasSubstr(path_ + ":3: speed is no setting"),
                  "the variable NIXL_SPED is not known", path_ + ":1: NIXL_SPEED is not known",
                  "the variable TOWPATH_LOG_LEVEL cannot be read: 'LOUD'",
                  path_ + ":2: NIXL_TELEMETRY_ENABEL is not known here"));
  telemetry::CollectingSink sink;
  const ManualClock clock;
  reported.warn(telemetry::Log(sink, clock, "test"));
  ASSERT_EQ(sink.events().size(), reported.warnings.size());
  EXPECT_EQ(sink.events()[0].level, telemetry::Level::warning);
}

TEST_F(ConfigurationTest, place_for_figures_that_are_not_counted_is_a_warning) {
  const auto reported =
      configured("NIXL_TELEMETRY_EXPORTER = \"nop\"\n", {{"NIXL_TELEMETRY_DIR", "/t"}}).value();
  EXPECT_THAT(reported.warnings_of(true), testing::IsEmpty());
  EXPECT_THAT(reported.warnings_of(false),
              ElementsAre(HasSubstr("the variable NIXL_TELEMETRY_DIR has no effect")));
}

TEST_F(ConfigurationTest, what_is_wrong_in_the_file_is_an_error) {
  EXPECT_THAT(configured("\nNIXL_LOG_LEVEL = WARN\n").status().to_string(),
              HasSubstr(path_ + ":2 cannot be read"));
  EXPECT_THAT(configured("NIXL_TELEMETRY_ENABLE = \"perhaps\"\n").status().to_string(),
              HasSubstr("NIXL_TELEMETRY_ENABLE='perhaps' makes no sense"));
}

TEST_F(ConfigurationTest, a_file_may_ask_for_encryption_and_not_for_what_pes_read) {
  const auto reported = configured(
                            "TOWPATH_SECURITY = \"tls\"\n"
                            "TOWPATH_SHMEM_HEAP = \"64M\"\n",
                            {{"NIXL_SECURITY", "tls"}})
                            .value();
  EXPECT_EQ(reported.environment.at("TOWPATH_SECURITY"), "tls");
  EXPECT_THAT(
      reported.warnings,
      testing::UnorderedElementsAre(
          cat(path_, ":2: TOWPATH_SHMEM_HEAP has no effect: it is read from the environment alone"),
          "the variable NIXL_SECURITY has no effect: it is called TOWPATH_SECURITY"));
  const auto all = given_settings({}, path_).value();
  const auto source_of = [&](std::string_view name) {
    return std::ranges::find(all, name, [](const GivenSetting& one) { return one.setting.name; })
        ->source;
  };
  EXPECT_EQ(source_of("SECURITY"), cat(path_, ":1"));
  EXPECT_EQ(source_of("SHMEM_HEAP"), "");
}

TEST_F(ConfigurationTest, a_file_cannot_name_another) {
  const auto reported = configured("NIXL_CONFIG_FILE = \"/other.cfg\"\n").value();
  EXPECT_THAT(
      reported.warnings,
      ElementsAre(
          cat(path_, ":1: NIXL_CONFIG_FILE has no effect: it is read from the environment alone")));
  const auto all = given_settings({}, path_).value();
  const auto given = std::ranges::find(all, "CONFIG_FILE",
                                       [](const GivenSetting& one) { return one.setting.name; });
  EXPECT_EQ(given->source, "");
}

TEST_F(ConfigurationTest, every_setting_is_known_once_and_its_source_is_named) {
  std::ofstream(path_) << "NIXL_LOG_LEVEL = \"info\"\nNIXL_ETCD_NAMESPACE = \"/kv/\"\n";
  const Environment environment{{"NIXL_LISTEN_HOST", "10.0.0.1"},
                                {"TOWPATH_LISTEN_HOST", "10.0.0.2"},
                                {"NIXL_SECURITY", "tls"},
                                {"TOWPATH_ETCD_NAMESPACE", "/mine/"}};
  const auto all = given_settings(environment, path_);
  ASSERT_TRUE(all.ok()) << all.status().to_string();
  std::map<std::string_view, const GivenSetting*> by_name;
  for (const GivenSetting& given : *all) {
    EXPECT_TRUE(by_name.emplace(given.setting.name, &given).second) << given.setting.name;
    EXPECT_FALSE(given.setting.what.empty() || given.setting.values.empty() ||
                 given.setting.unset.empty())
        << given.setting.name;
  }
  const auto is = [&](std::string_view name, std::string_view value, std::string_view source) {
    EXPECT_EQ(by_name.at(name)->value, value) << name;
    EXPECT_THAT(by_name.at(name)->source, testing::EndsWith(source)) << name;
  };
  is("LISTEN_HOST", "10.0.0.2", "TOWPATH_LISTEN_HOST");
  is("LOG_LEVEL", "info", ":1");
  is("ETCD_NAMESPACE", "/mine/", "TOWPATH_ETCD_NAMESPACE");
  is("SECURITY", "", "");
  is("TELEMETRY_DIR", "", "");
}

TEST_F(ConfigurationTest, no_setting_of_the_table_is_called_unknown) {
  int known = 0;
  for (const Setting& setting : known_settings()) {
    if (setting.name == "CONFIG_FILE") continue;
    const std::string name = cat("TOWPATH_", setting.name);
    const auto reported = configure({{name, "1"}}, path_);
    if (reported.ok())
      EXPECT_THAT(reported->warnings, testing::Not(testing::Contains(HasSubstr("is not known"))))
          << name;
    else
      EXPECT_THAT(reported.status().to_string(), HasSubstr(name)) << "its value was read";
    ++known;
  }
  EXPECT_GT(known, 10);
}

}  // namespace
}  // namespace towpath::standard
