#include <algorithm>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/compat/kvbm/settings.h>
#include <towpath/core/format.h>

namespace towpath::kvbm {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

TEST(KvbmSettingsTest, silence_is_kvbm_s_defaults) {
  const Settings reported = Settings::from({{"PATH", "/bin"}, {"DYN_KVBM_CPU_CACHE_GB", ""}});
  EXPECT_FALSE(reported.host.blocks_of(1000));
  EXPECT_FALSE(reported.disk_options(1000));
  EXPECT_EQ(reported.cache_options().admission.min_accesses, 2U);
  EXPECT_TRUE(reported.remarks.empty());
}

TEST(KvbmSettingsTest, sizes_are_of_ten_to_the_ninth_and_blocks_win) {
  const Settings reported = Settings::from({{"DYN_KVBM_CPU_CACHE_GB", "1.5"},
                                            {"DYN_KVBM_DISK_CACHE_GB", "100"},
                                            {"DYN_KVBM_DISK_CACHE_DIR", "/mnt/nvme"}});
  EXPECT_EQ(reported.host.blocks_of(1'000'000), 1500U);
  const auto disk = reported.disk_options(1'000'000);
  EXPECT_EQ(disk->capacity_bytes, 100'000'000'000U);
  EXPECT_EQ(disk->directory, "/mnt/nvme");
  const Settings blocks = Settings::from({{"DYN_KVBM_CPU_CACHE_GB", "1"},
                                          {"DYN_KVBM_CPU_CACHE_OVERRIDE_NUM_BLOCKS", "7"},
                                          {"DYN_KVBM_DISK_CACHE_OVERRIDE_NUM_BLOCKS", "10"}});
  EXPECT_EQ(blocks.host.blocks_of(1'000'000), 7U);
  EXPECT_EQ(blocks.disk_options(8192)->capacity_bytes, 10U * (4096 + 8192));
}

TEST(KvbmSettingsTest, a_size_of_zero_is_none) {
  const Settings reported = Settings::from({{"DYN_KVBM_CPU_CACHE_GB", "1"},
                                            {"DYN_KVBM_CPU_CACHE_OVERRIDE_NUM_BLOCKS", "0"},
                                            {"DYN_KVBM_DISK_CACHE_GB", "0"},
                                            {"DYN_KVBM_DISK_CACHE_OVERRIDE_NUM_BLOCKS", "0"}});
  EXPECT_TRUE(reported.remarks.empty());
  const auto shape = reported.shape(1'000'000);
  ASSERT_TRUE(shape.ok()) << shape.status().to_string();
  EXPECT_EQ(shape->host_blocks, 1000U);
  EXPECT_FALSE(shape->disk);
}

TEST(KvbmSettingsTest, the_filter_the_batch_and_the_priority_arrive) {
  const auto options = Settings::from({{"DYN_KVBM_DISABLE_DISK_OFFLOAD_FILTER", "true"},
                                       {"DYN_KVBM_MAX_TRANSFER_BATCH_SIZE", "4"},
                                       {"DYN_KVBM_HOST_OFFLOAD_PREFIX_MIN_PRIORITY", "35"}})
                           .cache_options();
  EXPECT_EQ(options.admission.min_accesses, 1U);
  EXPECT_EQ(options.admission.min_priority, 35);
  EXPECT_EQ(options.batch_blocks, 4U);
  EXPECT_LE(options.batch_at_least, 4U);
}

TEST(KvbmSettingsTest, a_cache_s_shape_is_all_or_a_reason_by_variable) {
  standard::Environment said{{"DYN_KVBM_DISK_CACHE_GB", "1"}};
  const auto why = [&] { return Settings::from(said).shape(1'000'000).status().to_string(); };
  EXPECT_THAT(why(), HasSubstr("DYN_KVBM_CPU_CACHE_GB"));
  said["DYN_KVBM_CPU_CACHE_GB"] = "0.5";
  EXPECT_THAT(why(), HasSubstr("DYN_KVBM_DISK_CACHE_DIR"));
  said["DYN_KVBM_DISK_CACHE_DIR"] = "/mnt/nvme";
  const auto shape = Settings::from(said).shape(1'000'000);
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->host_blocks, 500U);
  EXPECT_EQ(shape->cache.admission.min_accesses, 2U);
  EXPECT_EQ(shape->disk->capacity_bytes, 1'000'000'000U);
  said.erase("DYN_KVBM_DISK_CACHE_GB");
  EXPECT_FALSE(Settings::from(said).shape(1'000'000)->disk);
}

TEST(KvbmSettingsTest, objects_have_a_place_and_a_bound) {
  standard::Environment said{{"DYN_KVBM_CPU_CACHE_GB", "1"},
                             {"DYN_KVBM_OBJECT_BUCKET", "kv-{worker_id}-cold"},
                             {"DYN_KVBM_OBJECT_ENDPOINT", "http://store"},
                             {"DYN_KVBM_OBJECT_ACCESS_KEY", "who"},
                             {"DYN_KVBM_OBJECT_SECRET_KEY", "hush"}};
  const auto shape = [&] { return Settings::from(said).shape(8192, 3); };
  EXPECT_FALSE(shape()->objects) << "they were not enabled";
  said["DYN_KVBM_OBJECT_ENABLED"] = "1";
  EXPECT_THAT(shape().status().to_string(), HasSubstr("DYN_KVBM_OBJECT_NUM_BLOCKS"));
  said["DYN_KVBM_OBJECT_NUM_BLOCKS"] = "10";
  ASSERT_TRUE(shape().ok());
  EXPECT_EQ(shape()->objects->bucket, "kv-3-cold");
  EXPECT_EQ(shape()->objects->bound_bytes, 10U * (4096 + 8192));
  EXPECT_EQ(shape()->objects->params, (backend::Params{{"endpoint_override", "http://store"},
                                                       {"access_key", "who"},
                                                       {"secret_key", "hush"}}));
}

TEST(KvbmSettingsTest, each_of_kvbm_s_names_is_taken_or_refused_with_a_reason) {
  standard::Environment all{{"DYN_MEMORY_DISABLE_NUMA", "1"}};
  for (const char* name : {"CPU_CACHE_GB",
                           "CPU_CACHE_OVERRIDE_NUM_BLOCKS",
                           "DISK_CACHE_GB",
                           "DISK_CACHE_OVERRIDE_NUM_BLOCKS",
                           "DISK_CACHE_DIR",
                           "DISK_ZEROFILL_FALLBACK",
                           "DISK_DISABLE_O_DIRECT",
                           "DISK_ALLOCATOR_TYPE",
                           "DISABLE_DISK_OFFLOAD_FILTER",
                           "MAX_CONCURRENT_TRANSFERS",
                           "MAX_TRANSFER_BATCH_SIZE",
                           "TRANSFER_BATCH_SIZE",
                           "LEADER_WORKER_INIT_TIMEOUT_SECS",
                           "LEADER_ZMQ_HOST",
                           "LEADER_ZMQ_PUB_PORT",
                           "LEADER_ZMQ_ACK_PORT",
                           "TRTLLM_ZMQ_PORT",
                           "METRICS",
                           "METRICS_PORT",
                           "CACHE_STATS_MAX_REQUESTS",
                           "CACHE_STATS_LOG_INTERVAL_SECS",
                           "ENABLE_RECORD",
                           "NCCL_MLA_MODE",
                           "NIXL_BACKEND_UCX",
                           "OBJECT_ENABLED",
                           "OBJECT_BUCKET",
                           "OBJECT_ENDPOINT",
                           "OBJECT_REGION",
                           "OBJECT_ACCESS_KEY",
                           "OBJECT_SECRET_KEY",
                           "OBJECT_NUM_BLOCKS",
                           "OBJECT_WRITE_THROUGH",
                           "HOST_OFFLOAD_PREFIX_MIN_PRIORITY",
                           "ENABLE_NUMA",
                           "KV_EVENTS_ENABLE_CONSOLIDATOR"})
    all[cat("DYN_KVBM_", name)] = "1";
  const Settings reported = Settings::from(all);
  for (const standard::Remark& remark : reported.remarks)
    EXPECT_THAT(remark.why, HasSubstr("has no effect: ")) << remark.variable;
  EXPECT_EQ(reported.remarks.size(), 20U) << "of " << all.size();
}

TEST(KvbmSettingsTest, a_remark_says_what_is_done_here_instead) {
  const auto why = [](const char* name) {
    const Settings reported = Settings::from({{cat("DYN_KVBM_", name), "1"}});
    return reported.remarks.empty() ? std::string() : reported.remarks.front().why;
  };
  // Segment::take_space() reserves, and SystemFile::preallocate() fills where that cannot be had.
  EXPECT_THAT(why("DISK_ALLOCATOR_TYPE"), HasSubstr("reserved when it is begun"));
  EXPECT_THAT(why("DISK_ZEROFILL_FALLBACK"), HasSubstr("filled with zeros where"));
  EXPECT_THAT(why("MAX_CONCURRENT_TRANSFERS"), HasSubstr("each tier"));
  EXPECT_THAT(why("ENABLE_RECORD"), HasSubstr("TOWPATH_TELEMETRY_ENABLE=1"));
}

TEST(KvbmSettingsTest, what_means_nothing_here_is_remarked_on_and_never_fatal) {
  const Settings reported = Settings::from({{"DYN_KVBM_CPU_CACHE_GB", "lots"},
                                            {"DYN_KVBM_CPU_CASHE_GB", "5"},
                                            {"DYN_KVBM_DISK_CACHE_GB", "-1"},
                                            {"DYN_KVBM_LEADER_ZMQ_HOST", "here"},
                                            {"DYN_KVBM_NIXL_BACKEND_GDS_MT", "true"}});
  ASSERT_EQ(reported.remarks.size(), 5U);
  EXPECT_THAT(reported.remarks[0].why, HasSubstr("'lots'"));
  EXPECT_EQ(reported.remarks[1], (standard::Remark{"DYN_KVBM_CPU_CASHE_GB", "is not known"}));
  EXPECT_THAT(reported.remarks[2].why, HasSubstr("cannot be read"));
  EXPECT_THAT(reported.remarks[3].why, HasSubstr("no leader"));
  EXPECT_THAT(reported.remarks[4].why, HasSubstr("backends are named"));
  EXPECT_FALSE(reported.host.bytes);
  const std::string missing = reported.shape(1'000'000).status().cause().to_string();
  EXPECT_THAT(missing, HasSubstr("DYN_KVBM_CPU_CACHE_GB cannot be read: 'lots'"));
  EXPECT_THAT(missing, HasSubstr("DYN_KVBM_CPU_CASHE_GB is not known"));
  EXPECT_THAT(missing, Not(HasSubstr("ZMQ")));
}

std::string file_of(const std::string& folder, const std::string& name, const std::string& text) {
  std::string path = cat(folder, "/", name);
  std::ofstream(path) << text;
  return path;
}

TEST(KvbmSettingsTest, each_source_wins_over_those_before_it) {
  const std::string folder = ::testing::TempDir();
  standard::Environment said{{"DYN_KVBM_CPU_CACHE_GB", "1"},
                             {"DYN_KVBM_DISK_CACHE_GB", "1"},
                             {"DYN_KVBM_TRANSFER_BATCH_SIZE", "10"}};
  Sources sources{.system_file = cat(folder, "/no-such-kvbm.toml")};
  const auto host_bytes = [&] {
    const auto reported = Settings::read(said, sources);
    EXPECT_TRUE(reported.ok()) << reported.status().to_string();
    EXPECT_EQ(reported->disk.bytes, 1'000'000'000U) << "nobody else says it";
    return reported->host.bytes.value() / 1'000'000'000;
  };
  EXPECT_EQ(host_bytes(), 1U);
  sources.system_file = file_of(folder, "kvbm_system.toml",
                                "[cache.host]\ncache_size_gb = 2\n[tokio]\nworker_threads = 1\n");
  EXPECT_EQ(host_bytes(), 2U);
  said["KVBM_CONFIG_PATH"] = file_of(folder, "kvbm_user.toml",
                                     "leader.cache.host.cache_size_gb = 3.0\n"
                                     "cache.host.cache_size_gb = 30.0\n"
                                     "default.cache.host.cache_size_gb = 300.0\n"
                                     "worker.cache.host.cache_size_gb = 3000.0\n"
                                     "[offload.g2_to_g3]\npolicies = [\"presence\"]\n");
  EXPECT_EQ(host_bytes(), 3U);
  said["KVBM_CACHE_HOST_CACHE_SIZE_GB"] = "4";
  EXPECT_EQ(host_bytes(), 4U);
  sources.json = R"({"leader": {"cache": {"host": {"cache_size_gb": 5}}}, "cashe": 1})";
  EXPECT_EQ(host_bytes(), 5U);

  const auto reported = Settings::read(said, sources);
  EXPECT_FALSE(reported->second_sight);
  EXPECT_EQ(reported->batch_blocks, 10U);
  const auto rows = given_settings(said, sources).value();
  const auto row = [&](std::string_view name) {
    return *std::ranges::find(rows, name, &standard::GivenSetting::name);
  };
  EXPECT_EQ(row("DYN_KVBM_CPU_CACHE_GB").value, "5");
  EXPECT_EQ(row("DYN_KVBM_CPU_CACHE_GB").source, "JSON leader.cache.host.cache_size_gb");
  EXPECT_EQ(row("DYN_KVBM_DISK_CACHE_GB").source, "DYN_KVBM_DISK_CACHE_GB");
  EXPECT_EQ(row("DYN_KVBM_OBJECT_BUCKET").source, "") << "nobody gives it";
  EXPECT_THAT(
      reported->remarks,
      UnorderedElementsAre(
          standard::Remark{cat(sources.system_file, ":4 tokio.worker_threads"),
                           "has no effect: there are no threads but those that are asked for"},
          standard::Remark{cat(said["KVBM_CONFIG_PATH"], ":4 worker.cache.host.cache_size_gb"),
                           "has no effect: tiers are as large as the leader's settings say"},
          standard::Remark{"JSON cashe", "is not known"}));
  said["KVBM_CONFIG_PATH"] = cat(folder, "/no-such-kvbm.toml");
  EXPECT_EQ(Settings::read(said, sources).code(), Code::not_found);
}

TEST(KvbmSettingsTest, what_cannot_be_read_changes_nothing_and_is_not_listed) {
  const standard::Environment said{{"DYN_KVBM_CPU_CACHE_GB", "3"},
                                   {"KVBM_CACHE_HOST_CACHE_SIZE_GB", "three"},
                                   {"DYN_KVBM_OBJECT_ENABLED", "1"},
                                   {"KVBM_OBJECT_CLIENT_TYPE", "tape"}};
  const Settings reported = Settings::from(said);
  EXPECT_EQ(reported.host.bytes, 3'000'000'000U);
  EXPECT_TRUE(reported.objects.enabled);
  const auto rows = given_settings(said, {.system_file = "/no-such-kvbm.toml"}).value();
  for (const auto& [name, value] :
       {std::pair{"DYN_KVBM_CPU_CACHE_GB", "3"}, {"KVBM_OBJECT_CLIENT_TYPE", ""}})
    EXPECT_EQ(std::ranges::find(rows, name, &standard::GivenSetting::name)->value, value) << name;
}

TEST(KvbmSettingsTest, a_secret_is_not_shown) {
  const auto rows = given_settings({{"DYN_KVBM_OBJECT_SECRET_KEY", "0123"}}).value();
  EXPECT_TRUE(std::ranges::any_of(rows, [](const auto& row) { return !row.source.empty(); }));
  for (const standard::GivenSetting& row : rows)
    EXPECT_EQ(row.value.find("0123"), std::string::npos);
}

TEST(KvbmSettingsTest, native_variables_are_paths_in_capitals) {
  const Settings reported = Settings::from({{"KVBM_CACHE_DISK_NUM_BLOCKS", "7"},
                                            {"KVBM_OFFLOAD_G1_TO_G2_MIN_PRIORITY", "35"},
                                            {"KVBM_OFFLOAD_G1_TO_G2_MAX_BATCH_SIZE", "-1"},
                                            {"KVBM_MESSENGER_BACKEND_TCP_PORT", "1"},
                                            {"KVBM_CASHE", "1"}});
  EXPECT_EQ(reported.disk.blocks, 7U);
  EXPECT_EQ(reported.min_priority, 35);
  EXPECT_THAT(reported.remarks,
              UnorderedElementsAre(
                  standard::Remark{"KVBM_OFFLOAD_G1_TO_G2_MAX_BATCH_SIZE", "cannot be read: '-1'"},
                  standard::Remark{"KVBM_MESSENGER_BACKEND_TCP_PORT",
                                   "has no effect: agents meet at a rendezvous"},
                  standard::Remark{"KVBM_CASHE", "is not known"}));
}

}  // namespace
}  // namespace towpath::kvbm
