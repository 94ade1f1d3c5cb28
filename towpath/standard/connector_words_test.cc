#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/standard/connector_words.h>

namespace towpath::standard {
namespace {

using ::testing::HasSubstr;

TEST(ConnectorWordsTest, what_is_said_goes_over_what_was_there_and_the_rest_stays) {
  ConnectorNodeOptions options;
  options.cache.admission.min_accesses = 7;
  ASSERT_TRUE(apply({.policy = "s3-fifo", .digest = "crc32c"}, options).ok());
  EXPECT_EQ(options.cache.policy, kv::PolicyKind::s3_fifo);
  EXPECT_EQ(options.digest, kv::DigestAlgorithm::crc32c);
  EXPECT_EQ(options.cache.admission.min_accesses, 7);
  ASSERT_TRUE(apply({.min_accesses = 1}, options).ok());
  EXPECT_EQ(options.cache.admission.min_accesses, 1);
  EXPECT_EQ(options.cache.policy, kv::PolicyKind::s3_fifo);
}

TEST(ConnectorWordsTest, words_that_are_none_are_refused) {
  ConnectorNodeOptions options;
  EXPECT_THAT(apply({.policy = "lucky"}, options).to_string(), HasSubstr("s3-fifo"));
  EXPECT_THAT(apply({.digest = "md5"}, options).to_string(), HasSubstr("crc32c"));
}

}  // namespace
}  // namespace towpath::standard
