#include <gtest/gtest.h>

#include <towpath/memory/borrowed.h>
#include <towpath/memory/slice.h>
#include <towpath/memory/system_region.h>

namespace towpath::memory {
namespace {

TEST(SliceTest, fill_touches_the_part_and_nothing_else) {
  const auto region = *SystemRegion::allocate(64);
  ASSERT_TRUE(fill(*region, {.offset = 8, .size_bytes = 16}, std::byte{0xab}).ok());
  for (std::size_t i = 0; i < 64; ++i)
    EXPECT_EQ(region->bytes()[i], i >= 8 && i < 24 ? std::byte{0xab} : std::byte{0}) << i;
}

TEST(SliceTest, leaving_the_region_is_refused) {
  const auto region = *SystemRegion::allocate(64);
  EXPECT_TRUE(slice(*region, {.offset = 0, .size_bytes = 64}).ok());
  EXPECT_EQ(slice(*region, {.offset = 1, .size_bytes = 64}).code(), Code::out_of_range);
  EXPECT_EQ(fill(*region, {.offset = UINT64_MAX, .size_bytes = 2}, std::byte{}).code(),
            Code::out_of_range);
}

TEST(SliceTest, a_kind_out_of_reach_is_unsupported) {
  const auto device =
      *BorrowedRegion::create({.kind = MemoryKind::device, .address = 4096, .size_bytes = 64});
  EXPECT_EQ(slice(*device, {.offset = 0, .size_bytes = 1}).code(), Code::unsupported);
  EXPECT_EQ(fill(*device, {.offset = 0, .size_bytes = 1}, std::byte{}).code(), Code::unsupported);
}

TEST(SliceTest, typed_values_share_the_bytes) {
  const auto region = *SystemRegion::allocate(64);
  auto words = slice_as<std::uint32_t>(*region, {.offset = 4, .size_bytes = 12});
  ASSERT_TRUE(words.ok());
  ASSERT_EQ(words->size(), 3u);
  (*words)[0] = 0x01010101;
  EXPECT_EQ(region->bytes()[4], std::byte{1});
}

TEST(SliceTest, typed_slices_need_alignment_and_whole_values) {
  const auto region = *SystemRegion::allocate(64);
  EXPECT_EQ(slice_as<std::uint32_t>(*region, {.offset = 2, .size_bytes = 4}).code(),
            Code::invalid_argument);
  EXPECT_EQ(slice_as<std::uint32_t>(*region, {.offset = 4, .size_bytes = 6}).code(),
            Code::invalid_argument);
  EXPECT_EQ(slice_as<std::uint32_t>(*region, {.offset = 64, .size_bytes = 4}).code(),
            Code::out_of_range);
}

}  // namespace
}  // namespace towpath::memory
