#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/compat/kvbm/settings.h>
#include <towpath/standard/connector_options.h>

namespace towpath::kvbm {
namespace {

using standard::ConnectorNodeOptions;
using standard::Environment;
using standard::Remark;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Of blocks of 1,024 bytes.
ConnectorNodeOptions shaped() {
  return {.config = {.num_blocks = 4,
                     .num_layers = 2,
                     .outer_dim = 2,
                     .page_size = 8,
                     .inner_dim = 16,
                     .dtype_width_bytes = 2},
          .rank = 3};
}

TEST(KvbmConnectorTest, its_settings_say_how_large_each_tier_is_and_where) {
  ConnectorNodeOptions options = shaped();
  const Environment environment{{"DYN_KVBM_CPU_CACHE_OVERRIDE_NUM_BLOCKS", "7"},
                                {"DYN_KVBM_DISK_CACHE_DIR", "/mnt/nvme"},
                                {"DYN_KVBM_DISK_CACHE_OVERRIDE_NUM_BLOCKS", "10"},
                                {"DYN_KVBM_OBJECT_ENABLED", "1"},
                                {"DYN_KVBM_OBJECT_BUCKET", "cold-{worker_id}"},
                                {"DYN_KVBM_OBJECT_NUM_BLOCKS", "20"},
                                {"DYN_KVBM_TRANSFER_BATCH_SIZE", "5"}};
  ASSERT_TRUE(apply("", environment, options).ok());
  EXPECT_EQ(options.host_blocks, 7U);
  EXPECT_EQ(options.directory, "/mnt/nvme");
  EXPECT_EQ(options.disk_bytes, 10U * (4096 + 4096));
  EXPECT_EQ(options.objects->bucket, "cold-3");
  EXPECT_EQ(options.cache.batch_blocks, 5U);
  EXPECT_EQ(options.cache.admission.min_accesses, 2) << "KVBM's filter";
  EXPECT_THAT(options.remarks, IsEmpty());
}

TEST(KvbmConnectorTest, the_engine_s_json_wins_and_what_has_no_effect_is_remarked_on) {
  ConnectorNodeOptions options = shaped();
  options.directory = "/said/by/the/program";
  const Environment environment{{"DYN_KVBM_CPU_CACHE_OVERRIDE_NUM_BLOCKS", "7"},
                                {"DYN_KVBM_HOST_OFFLOAD_PREFIX_MIN_PRIORITY", "80"},
                                {"DYN_KVBM_METRICS", "1"}};
  ASSERT_TRUE(
      apply(R"({"leader": {"cache": {"host": {"num_blocks": 9}}}})", environment, options).ok());
  EXPECT_EQ(options.host_blocks, 9U);
  EXPECT_EQ(options.directory, "/said/by/the/program") << "KVBM's settings name no disk";
  EXPECT_EQ(options.cache.admission.min_priority, 80);
  EXPECT_THAT(options.remarks, ElementsAre(Field(&Remark::variable, "DYN_KVBM_METRICS")));
}

TEST(KvbmConnectorTest, settings_that_cannot_be_followed_are_refused_and_change_nothing) {
  ConnectorNodeOptions options = shaped();
  const auto why = [&](const std::string& json, const Environment& environment) {
    return apply(json, environment, options).to_string();
  };
  EXPECT_THAT(why("", {}), HasSubstr("DYN_KVBM_CPU_CACHE_GB"));
  EXPECT_THAT(why("{", {}), HasSubstr("JSON"));
  EXPECT_THAT(why("", {{"DYN_KVBM_CPU_CACHE_GB", "lots"}}), HasSubstr("'lots'"));
  EXPECT_EQ(options.host_blocks, shaped().host_blocks);
}

}  // namespace
}  // namespace towpath::kvbm
