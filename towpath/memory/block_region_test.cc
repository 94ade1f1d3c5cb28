#include <gtest/gtest.h>

#include <towpath/memory/block_region.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::memory {
namespace {

TEST(BlockRegionTest, descriptor_says_where_and_what_is_allowed) {
  const auto region = BlockRegion::create({.path = "/dev/null", .offset = 4096, .size_bytes = 512});
  ASSERT_TRUE(region.ok()) << region.status().to_string();
  const RegionDescriptor descriptor = (*region)->descriptor();
  EXPECT_EQ(descriptor.kind, MemoryKind::block);
  EXPECT_EQ(descriptor.address, 4096U);
  EXPECT_EQ(descriptor.length, 512U);
  EXPECT_EQ(descriptor.device_id, 0x103U) << "major 1, minor 3";
  EXPECT_EQ(descriptor.key, "ro:/dev/null");
  EXPECT_TRUE((*region)->bytes().empty()) << "no loads and stores reach it";
}

TEST(BlockRegionTest, writing_needs_the_users_word) {
  const auto region = BlockRegion::create(
      {.path = "/dev/null", .size_bytes = 512, .access = BlockAccess::read_write});
  ASSERT_TRUE(region.ok());
  EXPECT_EQ((*region)->descriptor().key, "rw:/dev/null");
}

TEST(BlockRegionTest, key_without_a_mode_is_read_only) {
  const auto key = BlockKey::parse("/dev/ng0n1");
  ASSERT_TRUE(key.ok());
  EXPECT_EQ(key->path, "/dev/ng0n1");
  EXPECT_EQ(key->access, BlockAccess::read_only);
  EXPECT_EQ(BlockKey::parse("rw:/dev/ng0n1")->access, BlockAccess::read_write);
  EXPECT_EQ(BlockKey::parse("rw:/dev/ng0n1")->to_string(), "rw:/dev/ng0n1");
}

TEST(BlockRegionTest, what_names_no_device_is_refused) {
  using namespace std::string_literals;
  for (const std::string& key : {""s, "rw:"s, "ro:"s, "rw:/dev/\0ng"s})
    EXPECT_EQ(BlockKey::parse(key).code(), Code::invalid_argument);
  EXPECT_EQ(BlockRegion::create({.path = "/dev/null"}).code(), Code::invalid_argument);
  EXPECT_EQ(
      BlockRegion::create({.path = "/dev/null", .offset = UINT64_MAX, .size_bytes = 2}).code(),
      Code::invalid_argument);
  EXPECT_EQ(BlockRegion::create({.path = "/dev/no-such-device", .size_bytes = 1}).code(),
            Code::not_found);
}

}  // namespace
}  // namespace towpath::memory
