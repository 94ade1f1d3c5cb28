#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/standard/object_place.h>

namespace towpath::standard {
namespace {

TEST(ObjectPlaceTest, a_place_is_part_of_a_bucket_and_a_size) {
  const auto place = ObjectPlace::parse("s3://cold/llama/rank-0:2GiB");
  ASSERT_TRUE(place.ok()) << place.status().to_string();
  EXPECT_EQ(place->bucket, "cold");
  EXPECT_EQ(place->prefix, "llama/rank-0");
  EXPECT_EQ(place->bound_bytes, 2 * kGiB);
  EXPECT_EQ(ObjectPlace::parse("kv:4096")->bucket, "");
  for (const char* bad : {"", ":1GiB", "kv", "kv:", "kv:0", "kv/:1", "s3://cold:1", "s3:///kv:1",
                          "s3://cold/:1", "kv:much"})
    EXPECT_EQ(ObjectPlace::parse(bad).code(), Code::invalid_argument) << bad;
}

TEST(ObjectPlaceTest, a_place_says_which_store_and_keeps_no_secret) {
  const auto place = ObjectPlace::parse(
      "s3://cold/kv:1GiB?endpoint_override=http://127.0.0.1:9000&region=eu-west-1");
  ASSERT_TRUE(place.ok()) << place.status().to_string();
  EXPECT_EQ(place->prefix, "kv");
  EXPECT_EQ(place->bound_bytes, kGiB);
  EXPECT_EQ(place->params, (backend::Params{{"endpoint_override", "http://127.0.0.1:9000"},
                                            {"region", "eu-west-1"}}));
  for (const char* bad : {"?", "?region", "?=1", "?secret_key=x", "?bucket=b", "?no_such=1",
                          "?region=eu&", "?region=eu&&scheme=http"})
    EXPECT_EQ(ObjectPlace::parse(cat("kv:1GiB", bad)).code(), Code::invalid_argument) << bad;
}

}  // namespace
}  // namespace towpath::standard
