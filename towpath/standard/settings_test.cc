#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/standard/settings.h>
#include <towpath/standard/standard.h>

namespace towpath::standard {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(SettingsTest, nothing_set_is_nothing_asked) {
  const Settings nothing = Settings::from({{"HOME", "somewhere"}, {"NIXLISH", "1"}});
  EXPECT_FALSE(nothing.plugin_directory || nothing.log_level || nothing.transfer_timeout);
  EXPECT_THAT(nothing.etcd_endpoints, IsEmpty());
  EXPECT_EQ(nothing.etcd_namespace, "/nixl/agents/");
  EXPECT_THAT(nothing.remarks, IsEmpty());
}

TEST(SettingsTest, what_nixls_users_set_is_read) {
  const Settings read = Settings::from({{"NIXL_PLUGIN_DIR", "plugins"},
                                        {"NIXL_LOG_LEVEL", "warn"},
                                        {"NIXL_ETCD_ENDPOINTS", "http://a:1,,http://b:2,"},
                                        {"NIXL_ETCD_NAMESPACE", "/mine/"},
                                        {"TOWPATH_TRANSFER_TIMEOUT_MS", "1500"}});
  EXPECT_EQ(read.plugin_directory, "plugins");
  EXPECT_EQ(read.log_level, telemetry::Level::warning);
  EXPECT_THAT(read.etcd_endpoints, ElementsAre("http://a:1", "http://b:2"));
  EXPECT_EQ(read.etcd_namespace, "/mine/");
  EXPECT_EQ(read.transfer_timeout, Duration(std::chrono::milliseconds(1500)));
  EXPECT_THAT(read.remarks, IsEmpty());
}

TEST(SettingsTest, our_own_prefix_wins) {
  const Settings read = Settings::from({{"NIXL_LOG_LEVEL", "TRACE"},
                                        {"TOWPATH_LOG_LEVEL", "FATAL"},
                                        {"NIXL_ETCD_ENDPOINTS", "http://a:1"},
                                        {"TOWPATH_ETCD_ENDPOINTS", "http://b:1"}});
  EXPECT_EQ(read.log_level, telemetry::Level::error);
  EXPECT_THAT(read.etcd_endpoints, ElementsAre("http://b:1"));
}

TEST(SettingsTest, list_that_cannot_be_read_leaves_the_other_prefix_its_own) {
  const Settings read = Settings::from(
      {{"NIXL_ETCD_ENDPOINTS", "http://a:1, http://b:2"}, {"TOWPATH_ETCD_ENDPOINTS", ","}});
  EXPECT_THAT(read.etcd_endpoints, ElementsAre("http://a:1", "http://b:2"));
  EXPECT_THAT(read.remarks, ElementsAre(Remark{"TOWPATH_ETCD_ENDPOINTS", "cannot be read: ','"}));
}

TEST(SettingsTest, what_cannot_be_read_or_means_nothing_is_remarked_on) {
  const Settings read = Settings::from({{"NIXL_LOG_LEVEL", "LOUD"},
                                        {"NIXL_PLUGIN_DIR", ""},
                                        {"NIXL_ETCD_NAMESPACE", ""},
                                        {"NIXL_TRANSFER_TIMEOUT_MS", "0"},
                                        {"NIXL_TCPSTORE_ENDPOINT", "host:1"},
                                        {"NIXL_SPEED", "high"},
                                        {"NIXL_PREFIX", "somewhere"},
                                        {"TOWPATH_SECURITY", "tls"},
                                        {"TOWPATH_SECURITY_LEVEL", "tls"},
                                        {"TOWPATH_SHMEM_HEAP", "64M"},
                                        {"TOWPATH_SHMEM_PE", "0"},
                                        {"TOWPATH_SHMEM_HUGEPAGES", "required"},
                                        {"TOWPATH_SPEED", "high"}});
  std::vector<std::string> said;
  for (const auto& [variable, why] : read.remarks) said.push_back(variable + " " + why);
  EXPECT_THAT(
      said,
      ElementsAre("NIXL_ETCD_NAMESPACE cannot be read: ''", "NIXL_LOG_LEVEL cannot be read: 'LOUD'",
                  "NIXL_PLUGIN_DIR cannot be read: ''", "NIXL_SPEED is not known",
                  HasSubstr("NIXL_TCPSTORE_ENDPOINT has no effect: "),
                  "NIXL_TRANSFER_TIMEOUT_MS cannot be read: '0'",
                  "TOWPATH_SECURITY_LEVEL is not known", "TOWPATH_SHMEM_HUGEPAGES is not known",
                  "TOWPATH_SPEED is not known"));
}

TEST(SettingsTest, deadline_that_holds_when_nobody_gives_one_is_that_of_a_node) {
  const std::vector<Setting> all = Settings::all();
  const auto row = std::ranges::find(all, "TRANSFER_TIMEOUT_MS", &Setting::name);
  ASSERT_NE(row, all.end());
  const auto seconds = NodeOptions().default_timeout / std::chrono::seconds(1);
  EXPECT_THAT(row->unset, testing::StartsWith(std::to_string(seconds) + " s;"));
}

TEST(SettingsTest, what_of_nixl_has_no_effect_is_reported_with_what_to_use_instead) {
  const std::map<std::string, std::vector<std::string>> instead = {
      {"NIXL_TCPSTORE_ENDPOINTS", {"NIXL_ETCD_ENDPOINTS", "get_agent_metadata"}},
      {"NIXL_TCPSTORE_NAMESPACE", {"NIXL_ETCD_ENDPOINTS"}},
      {"NIXL_LIBFABRIC_MAX_BW_PER_DRAM_SEG", {"use UCX", "UCX_NET_DEVICES"}},
      {"NIXL_LIBFABRIC_MAX_RAILS", {"UCX_MAX_RNDV_RAILS"}},
      {"NIXL_MOONCAKE_CONFIG", {"use UCX"}},
      {"NIXL_UCX_RAILS", {"UCX_*"}},
      {"NIXL_TRACE_BACKENDS", {"flight recorder"}}};
  for (const auto& [variable, words] : instead) {
    const Settings read = Settings::from({{variable, "8"}});
    ASSERT_EQ(read.remarks.size(), 1U) << variable;
    EXPECT_THAT(read.remarks[0].why, HasSubstr("has no effect: ")) << variable;
    for (const std::string& word : words)
      EXPECT_THAT(read.remarks[0].why, HasSubstr(word)) << variable;
  }
}

}  // namespace
}  // namespace towpath::standard
