#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/standard/kvbm_settings.h>

namespace towpath::standard {
namespace {

using ::testing::HasSubstr;

TEST(KvbmSettingsTest, silence_is_kvbm_s_defaults) {
  const KvbmSettings told = KvbmSettings::from({{"PATH", "/bin"}, {"DYN_KVBM_CPU_CACHE_GB", ""}});
  EXPECT_FALSE(told.host.blocks_of(1000));
  EXPECT_FALSE(told.disk_options(1000));
  EXPECT_EQ(told.cache_options().admission.sightings, 2);
  EXPECT_TRUE(told.remarks.empty());
}

TEST(KvbmSettingsTest, sizes_are_of_ten_to_the_ninth_and_blocks_win) {
  const KvbmSettings told = KvbmSettings::from({{"DYN_KVBM_CPU_CACHE_GB", "1.5"},
                                                {"DYN_KVBM_DISK_CACHE_GB", "100"},
                                                {"DYN_KVBM_DISK_CACHE_DIR", "/mnt/nvme"}});
  EXPECT_EQ(told.host.blocks_of(1'000'000), 1500U);
  const auto disk = told.disk_options(1'000'000);
  EXPECT_EQ(disk->capacity_bytes, 100'000'000'000U);
  EXPECT_EQ(disk->directory, "/mnt/nvme");
  const KvbmSettings blocks =
      KvbmSettings::from({{"DYN_KVBM_CPU_CACHE_GB", "1"},
                          {"DYN_KVBM_CPU_CACHE_OVERRIDE_NUM_BLOCKS", "7"},
                          {"DYN_KVBM_DISK_CACHE_OVERRIDE_NUM_BLOCKS", "10"}});
  EXPECT_EQ(blocks.host.blocks_of(1'000'000), 7U);
  EXPECT_EQ(blocks.disk_options(8192)->capacity_bytes, 10U * (4096 + 8192));
}

TEST(KvbmSettingsTest, the_filter_the_batch_and_the_priority_arrive) {
  const auto options = KvbmSettings::from({{"DYN_KVBM_DISABLE_DISK_OFFLOAD_FILTER", "true"},
                                           {"DYN_KVBM_MAX_TRANSFER_BATCH_SIZE", "4"},
                                           {"DYN_KVBM_HOST_OFFLOAD_PREFIX_MIN_PRIORITY", "35"}})
                           .cache_options();
  EXPECT_EQ(options.admission.sightings, 1);
  EXPECT_EQ(options.admission.min_priority, 35);
  EXPECT_EQ(options.batch_blocks, 4U);
  EXPECT_LE(options.batch_at_least, 4U);
}

TEST(KvbmSettingsTest, a_cache_s_shape_is_all_or_a_reason_by_variable) {
  Environment said{{"DYN_KVBM_DISK_CACHE_GB", "1"}};
  const auto why = [&] { return KvbmSettings::from(said).shape(1'000'000).status().to_string(); };
  EXPECT_THAT(why(), HasSubstr("DYN_KVBM_CPU_CACHE_GB"));
  said["DYN_KVBM_CPU_CACHE_GB"] = "0.5";
  EXPECT_THAT(why(), HasSubstr("DYN_KVBM_DISK_CACHE_DIR"));
  said["DYN_KVBM_DISK_CACHE_DIR"] = "/mnt/nvme";
  const auto shape = KvbmSettings::from(said).shape(1'000'000);
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->host_blocks, 500U);
  EXPECT_EQ(shape->cache.admission.sightings, 2);
  EXPECT_EQ(shape->disk->capacity_bytes, 1'000'000'000U);
  said.erase("DYN_KVBM_DISK_CACHE_GB");
  EXPECT_FALSE(KvbmSettings::from(said).shape(1'000'000)->disk);
}

TEST(KvbmSettingsTest, what_means_nothing_here_is_remarked_on_and_never_fatal) {
  const KvbmSettings told = KvbmSettings::from({{"DYN_KVBM_CPU_CACHE_GB", "lots"},
                                                {"DYN_KVBM_CPU_CASHE_GB", "5"},
                                                {"DYN_KVBM_DISK_CACHE_GB", "-1"},
                                                {"DYN_KVBM_LEADER_ZMQ_HOST", "here"},
                                                {"DYN_KVBM_NIXL_BACKEND_GDS_MT", "true"}});
  ASSERT_EQ(told.remarks.size(), 5U);
  EXPECT_THAT(told.remarks[0].why, HasSubstr("'lots'"));
  EXPECT_EQ(told.remarks[1], (Remark{"DYN_KVBM_CPU_CASHE_GB", "is not known"}));
  EXPECT_THAT(told.remarks[2].why, HasSubstr("cannot be read"));
  EXPECT_THAT(told.remarks[3].why, HasSubstr("no leader"));
  EXPECT_THAT(told.remarks[4].why, HasSubstr("backends are named"));
  EXPECT_FALSE(told.host.bytes);
}

}  // namespace
}  // namespace towpath::standard
