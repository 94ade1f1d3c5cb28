#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/standard/connector_words.h>

namespace towpath::standard {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::SizeIs;

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

TEST(ConnectorWordsTest, kvbm_s_settings_say_how_large_each_tier_is_and_where) {
  ConnectorNodeOptions options = shaped();
  const Environment environment{{"DYN_KVBM_CPU_CACHE_OVERRIDE_NUM_BLOCKS", "7"},
                                {"DYN_KVBM_DISK_CACHE_DIR", "/mnt/nvme"},
                                {"DYN_KVBM_DISK_CACHE_OVERRIDE_NUM_BLOCKS", "10"},
                                {"DYN_KVBM_OBJECT_ENABLED", "1"},
                                {"DYN_KVBM_OBJECT_BUCKET", "cold-{worker_id}"},
                                {"DYN_KVBM_OBJECT_NUM_BLOCKS", "20"},
                                {"DYN_KVBM_TRANSFER_BATCH_SIZE", "5"}};
  ASSERT_TRUE(apply({.kvbm = ""}, environment, options).ok());
  EXPECT_EQ(options.host_blocks, 7U);
  EXPECT_EQ(options.directory, "/mnt/nvme");
  EXPECT_EQ(options.disk_bytes, 10U * (4096 + 4096));
  EXPECT_EQ(options.objects->bucket, "cold-3");
  EXPECT_EQ(options.cache.batch_blocks, 5U);
  EXPECT_EQ(options.cache.admission.min_accesses, 2) << "KVBM's filter";
  EXPECT_THAT(options.remarks, SizeIs(0));
}

TEST(ConnectorWordsTest, the_engine_s_json_wins_and_what_has_no_effect_is_remarked_on) {
  ConnectorNodeOptions options = shaped();
  options.directory = "/said/by/the/program";
  const Environment environment{{"DYN_KVBM_CPU_CACHE_OVERRIDE_NUM_BLOCKS", "7"},
                                {"DYN_KVBM_HOST_OFFLOAD_PREFIX_MIN_PRIORITY", "80"},
                                {"DYN_KVBM_METRICS", "1"}};
  const ConnectorWords words{.policy = "s3-fifo",
                             .digest = "crc32c",
                             .min_accesses = 1,
                             .kvbm = R"({"leader": {"cache": {"host": {"num_blocks": 9}}}})"};
  ASSERT_TRUE(apply(words, environment, options).ok());
  EXPECT_EQ(options.host_blocks, 9U);
  EXPECT_EQ(options.directory, "/said/by/the/program") << "KVBM's settings name no disk";
  EXPECT_EQ(options.cache.policy, kv::PolicyKind::s3_fifo);
  EXPECT_EQ(options.digest, kv::DigestAlgorithm::crc32c);
  EXPECT_EQ(options.cache.admission.min_accesses, 1) << "the program said so";
  EXPECT_EQ(options.cache.admission.min_priority, 80);
  EXPECT_THAT(options.remarks, ElementsAre(Field(&Remark::variable, "DYN_KVBM_METRICS")));
}

TEST(ConnectorWordsTest, words_that_are_none_are_refused) {
  ConnectorNodeOptions options = shaped();
  const auto why = [&](const ConnectorWords& words, const Environment& environment) {
    return apply(words, environment, options).to_string();
  };
  EXPECT_THAT(why({.policy = "lucky"}, {}), HasSubstr("s3-fifo"));
  EXPECT_THAT(why({.digest = "md5"}, {}), HasSubstr("crc32c"));
  EXPECT_THAT(why({.kvbm = ""}, {}), HasSubstr("DYN_KVBM_CPU_CACHE_GB"));
  EXPECT_THAT(why({.kvbm = "{"}, {}), HasSubstr("JSON"));
  EXPECT_THAT(why({.kvbm = ""}, {{"DYN_KVBM_CPU_CACHE_GB", "lots"}}), HasSubstr("'lots'"));
  EXPECT_EQ(options.host_blocks, shaped().host_blocks);
}

}  // namespace
}  // namespace towpath::standard
