#include <gtest/gtest.h>

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

}  // namespace
}  // namespace towpath::standard
