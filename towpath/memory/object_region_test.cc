#include <climits>

#include <gtest/gtest.h>

#include <towpath/memory/object_region.h>
#include <towpath/memory/view.h>

namespace towpath::memory {
namespace {

TEST(ObjectRegionTest, says_where_its_bytes_are) {
  const auto region =
      ObjectRegion::create({.bucket = "cold", .key = "a/b", .offset = 4096, .size_bytes = 100});
  ASSERT_TRUE(region.ok());
  const RegionDescriptor self = (*region)->descriptor();
  EXPECT_EQ(self.kind, MemoryKind::object);
  EXPECT_EQ(self.address, 4096U);
  EXPECT_EQ(self.length, 100U);
  EXPECT_EQ(self.key, "s3://cold/a/b");
  EXPECT_TRUE((*region)->bytes().empty()) << "no load reaches it";
}

TEST(ObjectRegionTest, without_a_bucket_the_key_stands_alone) {
  EXPECT_EQ((*ObjectRegion::create({.key = "k", .size_bytes = 1}))->descriptor().key, "k");
}

TEST(ObjectRegionTest, without_a_size_it_goes_to_the_end_of_the_object) {
  const auto region = ObjectRegion::create({.key = "k", .offset = 10});
  ASSERT_TRUE(region.ok());
  EXPECT_EQ((*region)->size(), std::uint64_t{INT64_MAX} - 10);
}

TEST(ObjectRegionTest, objects_are_reported_apart_by_a_number_that_stays) {
  const ObjectPlace place{.bucket = "ab", .key = "c", .size_bytes = 1};
  EXPECT_EQ(object_device_id(place), object_device_id(place));
  EXPECT_NE(object_device_id(place), object_device_id({.bucket = "a", .key = "bc"}));
  EXPECT_EQ((*ObjectRegion::create(place))->descriptor().device_id, object_device_id(place));
  ObjectPlace numbered = place;
  numbered.device_id = 7;
  EXPECT_EQ((*ObjectRegion::create(numbered))->descriptor().device_id, 7U);
}

TEST(ObjectRegionTest, what_is_no_extent_of_an_object_is_refused) {
  EXPECT_EQ(ObjectRegion::create({.key = "", .size_bytes = 1}).code(), Code::invalid_argument);
  EXPECT_EQ(ObjectRegion::create({.key = "k", .size_bytes = 0}).code(), Code::invalid_argument);
  EXPECT_EQ(ObjectRegion::create({.key = "k", .offset = UINT64_MAX, .size_bytes = 2}).code(),
            Code::out_of_range);
}

}  // namespace
}  // namespace towpath::memory
