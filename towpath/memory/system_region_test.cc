#include <algorithm>

#include <gtest/gtest.h>

#include <towpath/memory/system_region.h>

namespace towpath::memory {
namespace {

TEST(SystemRegionTest, is_aligned_zeroed_and_writable) {
  for (const std::uint64_t size : {1u, 4095u, 4096u, 65537u}) {
    auto region = SystemRegion::allocate(size);
    ASSERT_TRUE(region.ok()) << region.status().to_string();
    const RegionDescriptor self = (*region)->descriptor();
    EXPECT_EQ(self.kind, MemoryKind::system);
    EXPECT_EQ(self.address % 4096, 0u);
    EXPECT_EQ(self.length, size);
    EXPECT_EQ(self.device_id, 0u);
    EXPECT_EQ(self.fd, -1);
    const ByteSpan bytes = (*region)->bytes();
    ASSERT_EQ(bytes.size(), size);
    EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; }));
    bytes.back() = std::byte{7};
    EXPECT_EQ((*region)->bytes().back(), std::byte{7});
  }
}

TEST(SystemRegionTest, zero_bytes_are_refused_with_a_hint) {
  auto region = SystemRegion::allocate(0);
  EXPECT_EQ(region.code(), Code::invalid_argument);
  EXPECT_FALSE(region.status().hint().empty());
}

TEST(SystemRegionTest, more_than_the_machine_has_is_exhausted_and_keeps_the_cause) {
  auto region = SystemRegion::allocate(std::uint64_t{1} << 62);
  EXPECT_EQ(region.code(), Code::exhausted);
  EXPECT_NE(region.status().message().find("4611686018427387904"), std::string::npos);
  EXPECT_FALSE(region.status().cause().ok());
}

TEST(SystemRegionTest, belongs_to_no_agent) {
  auto region = SystemRegion::allocate(1);
  ASSERT_TRUE(region.ok());
  EXPECT_EQ((*region)->registration(), nullptr);
}

}  // namespace
}  // namespace towpath::memory
