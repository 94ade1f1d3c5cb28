#include <gtest/gtest.h>

#include <towpath/memory/borrowed.h>
#include <towpath/memory/shared_region.h>
#include <towpath/memory/system_region.h>
#include <towpath/memory/testing/observe.h>
#include <towpath/memory/view.h>

namespace towpath::memory {
namespace {

using testing::says;

std::shared_ptr<SystemRegion> system(std::uint64_t size_bytes) {
  return *SystemRegion::allocate(size_bytes);
}

TEST(ViewTest, moves_the_address_and_cuts_the_length) {
  const auto base = system(4096);
  auto view = View::create(base, {.offset = 256, .size_bytes = 512});
  ASSERT_TRUE(view.ok());
  EXPECT_EQ((*view)->descriptor().address, base->descriptor().address + 256);
  EXPECT_EQ((*view)->size(), 512u);
  EXPECT_EQ((*view)->kind(), MemoryKind::system);
  EXPECT_EQ((*view)->offset(), 256u);
  EXPECT_EQ((*view)->base(), base);
  (*view)->bytes()[0] = std::byte{5};
  EXPECT_EQ(base->bytes()[256], std::byte{5});
}

TEST(ViewTest, keeps_its_base_alive) {
  auto base = system(4096);
  const std::weak_ptr<SystemRegion> watched = base;
  auto view = View::create(base, {.offset = 0, .size_bytes = 1});
  ASSERT_TRUE(view.ok());
  base.reset();
  EXPECT_FALSE(watched.expired());
  (*view)->bytes()[0] = std::byte{1};
  view->reset();
  EXPECT_TRUE(watched.expired());
}

TEST(ViewTest, views_of_views_add_up_and_stay_inside_the_nearer_one) {
  const auto base = system(4096);
  auto outer = View::create(base, {.offset = 1000, .size_bytes = 100});
  ASSERT_TRUE(outer.ok());
  auto inner = View::create(*outer, {.offset = 10, .size_bytes = 90});
  ASSERT_TRUE(inner.ok());
  EXPECT_EQ((*inner)->descriptor().address, base->descriptor().address + 1010);
  EXPECT_EQ(View::create(*outer, {.offset = 10, .size_bytes = 91}).code(), Code::out_of_range);
}

TEST(ViewTest, the_end_of_the_base_is_the_bound) {
  const auto base = system(100);
  EXPECT_TRUE(View::create(base, {.offset = 0, .size_bytes = 100}).ok());
  EXPECT_TRUE(View::create(base, {.offset = 100, .size_bytes = 0}).ok());
  auto past = View::create(base, {.offset = 1, .size_bytes = 100});
  EXPECT_EQ(past.code(), Code::out_of_range);
  EXPECT_TRUE(says(past.status(), "exceeds base bounds: [1, 101) of 100 bytes"))
      << past.status().to_string();
  EXPECT_EQ(View::create(base, {.offset = 101, .size_bytes = 0}).code(), Code::out_of_range);
}

TEST(ViewTest, an_offset_that_wraps_is_refused_with_its_values) {
  auto view = View::create(system(100), {.offset = UINT64_MAX, .size_bytes = 2});
  EXPECT_EQ(view.code(), Code::out_of_range);
  EXPECT_TRUE(says(view.status(), "offset overflow: 2 bytes at offset 18446744073709551615"))
      << view.status().to_string();
}

TEST(ViewTest, no_base_is_refused) {
  EXPECT_EQ(View::create(nullptr, {}).code(), Code::invalid_argument);
  EXPECT_EQ(View::at_address(nullptr, {}).code(), Code::invalid_argument);
}

TEST(ViewTest, by_address_finds_the_offset) {
  const auto base = system(100);
  const std::uint64_t address = base->descriptor().address;
  auto view = View::at_address(base, {.address = address + 7, .length = 3});
  ASSERT_TRUE(view.ok());
  EXPECT_EQ((*view)->offset(), 7u);
  auto before = View::at_address(base, {.address = address - 1, .length = 1});
  EXPECT_EQ(before.code(), Code::out_of_range);
  EXPECT_TRUE(says(before.status(), "address out of bounds")) << before.status().to_string();
  EXPECT_EQ(View::at_address(base, {.address = address + 99, .length = 2}).code(),
            Code::out_of_range);
  EXPECT_EQ(View::at_address(base, {.address = address, .length = UINT64_MAX}).code(),
            Code::out_of_range);
  EXPECT_EQ(View::at_address(base, {.address = address, .length = 1, .device_id = 1}).code(),
            Code::out_of_range);
}

TEST(ViewTest, of_a_file_reports_offsets_into_it) {
  auto file = BorrowedRegion::create(
      {.kind = MemoryKind::disk, .address = 0, .size_bytes = 1 << 20, .device_id = 3});
  ASSERT_TRUE(file.ok());
  auto view = View::create(*file, {.offset = 8192, .size_bytes = 4096});
  ASSERT_TRUE(view.ok());
  const RegionDescriptor self = (*view)->descriptor();
  EXPECT_EQ(self.address, 8192u);
  EXPECT_EQ(self.fd, 3);
  EXPECT_EQ(self.fd_offset, 0u);
  EXPECT_TRUE((*view)->bytes().empty());
}

TEST(ViewTest, of_shared_memory_reports_its_place_in_the_memfd) {
  auto shared = SharedMemoryRegion::create({.size_bytes = 3 * 4096});
  ASSERT_TRUE(shared.ok());
  auto outer = View::create(*shared, {.offset = 4096, .size_bytes = 4096});
  ASSERT_TRUE(outer.ok());
  auto inner = View::create(*outer, {.offset = 5, .size_bytes = 1});
  ASSERT_TRUE(inner.ok());
  EXPECT_EQ((*inner)->descriptor().fd, (*shared)->descriptor().fd);
  EXPECT_EQ((*inner)->descriptor().fd_offset, 4101u);
}

}  // namespace
}  // namespace towpath::memory
