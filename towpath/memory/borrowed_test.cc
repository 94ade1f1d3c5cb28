#include <array>

#include <gtest/gtest.h>

#include <towpath/memory/borrowed.h>
#include <towpath/memory/view.h>

namespace towpath::memory {
namespace {

/// A framework's tensor, as its user would wrap it.
struct GpuTensor {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  int gpu = 0;

  std::byte* address() const { return data; }
  std::size_t size() const { return bytes; }
  MemoryKind kind() const { return MemoryKind::device; }
  std::uint64_t device_id() const { return static_cast<std::uint64_t>(gpu); }
};
static_assert(RegionLike<GpuTensor>);

/// Keeps its bytes inside itself, so that a move gives them another address.
struct Inline {
  std::array<std::byte, 32> bytes{};
  std::unique_ptr<int> unique = std::make_unique<int>(0);  // moves, does not copy

  std::uint64_t address() const { return address_of(bytes.data()); }
  std::uint64_t size() const { return bytes.size(); }
  MemoryKind kind() const { return MemoryKind::system; }
  std::uint32_t device_id() const { return 0; }
};
static_assert(RegionLike<Inline>);

struct NoKind {
  void* address() const { return nullptr; }
  std::uint64_t size() const { return 0; }
  std::uint64_t device_id() const { return 0; }
};
static_assert(!RegionLike<NoKind>);
static_assert(!RegionLike<int>);

TEST(BorrowedRegionTest, reports_what_it_was_reported) {
  std::array<std::byte, 16> bytes{};
  auto region = BorrowedRegion::create({.address = address_of(bytes.data()), .size_bytes = 16});
  ASSERT_TRUE(region.ok());
  EXPECT_EQ((*region)->descriptor().address, address_of(bytes.data()));
  EXPECT_EQ((*region)->bytes().data(), bytes.data());
  EXPECT_EQ((*region)->descriptor().fd, -1);
  auto device = BorrowedRegion::create(
      {.kind = MemoryKind::device, .address = 4096, .size_bytes = 8, .device_id = 2});
  ASSERT_TRUE(device.ok());
  EXPECT_EQ((*device)->descriptor().device_id, 2u);
  EXPECT_TRUE((*device)->bytes().empty());
}

TEST(BorrowedRegionTest, holds_on_to_what_it_is_given) {
  auto owner = std::make_shared<std::array<std::byte, 16>>();
  const std::weak_ptr<void> watched = owner;
  auto region = BorrowedRegion::create(
      {.address = address_of(owner->data()), .size_bytes = 16, .keep_alive = owner});
  ASSERT_TRUE(region.ok());
  owner.reset();
  auto view = View::create(*region, {.offset = 0, .size_bytes = 1});
  region->reset();
  EXPECT_FALSE(watched.expired());
  view->reset();
  EXPECT_TRUE(watched.expired());
}

TEST(BorrowedRegionTest, impossible_facts_are_refused) {
  const auto code = [](BorrowedMemory memory) { return BorrowedRegion::create(memory).code(); };
  EXPECT_EQ(code({.address = 4096, .size_bytes = 0}), Code::invalid_argument);
  EXPECT_EQ(code({.address = 0, .size_bytes = 1}), Code::invalid_argument);
  EXPECT_EQ(code({.kind = MemoryKind::device, .address = 0, .size_bytes = 1}),
            Code::invalid_argument);
  EXPECT_EQ(code({.address = UINT64_MAX, .size_bytes = 2}), Code::out_of_range);
  EXPECT_EQ(code({.kind = MemoryKind::disk, .size_bytes = 1, .device_id = UINT64_MAX}),
            Code::invalid_argument);
}

TEST(BorrowedRegionTest, a_file_begins_at_offset_zero_and_reports_its_number) {
  auto file =
      BorrowedRegion::create({.kind = MemoryKind::disk, .size_bytes = 4096, .device_id = 9});
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ((*file)->descriptor().fd, 9);
}

TEST(BorrowedRegionTest, a_file_named_by_its_path_has_any_number) {
  auto file = BorrowedRegion::create(
      {.kind = MemoryKind::disk, .size_bytes = 4096, .device_id = UINT64_MAX, .key = "rw:/a/b"});
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ((*file)->descriptor().fd, -1);
  EXPECT_EQ((*file)->descriptor().device_id, UINT64_MAX);
  EXPECT_EQ((*file)->descriptor().key, "rw:/a/b");
}

TEST(UserRegionTest, a_users_type_becomes_a_region) {
  std::array<std::byte, 8> bytes{};
  auto region = UserRegion<GpuTensor>::create({.data = bytes.data(), .bytes = 8, .gpu = 3});
  ASSERT_TRUE(region.ok());
  const RegionDescriptor self = (*region)->descriptor();
  EXPECT_EQ(self.kind, MemoryKind::device);
  EXPECT_EQ(self.address, address_of(bytes.data()));
  EXPECT_EQ(self.length, 8u);
  EXPECT_EQ(self.device_id, 3u);
}

TEST(UserRegionTest, asks_after_the_value_moved_to_its_place) {
  Inline value;
  auto region = UserRegion<Inline>::create(std::move(value));
  ASSERT_TRUE(region.ok());
  EXPECT_EQ((*region)->descriptor().address, address_of((*region)->value().bytes.data()));
}

TEST(UserRegionTest, a_refused_value_stays_with_its_owner) {
  struct Empty : Inline {
    std::uint64_t size() const { return 0; }
  };
  Empty value;
  auto region = UserRegion<Empty>::create(std::move(value));
  EXPECT_EQ(region.code(), Code::invalid_argument);
  EXPECT_NE(value.unique, nullptr);  // NOLINT: that is the promise
}

TEST(UserRegionTest, the_value_comes_out_once_nobody_else_holds_it) {
  auto region = *UserRegion<Inline>::create(Inline{});
  SharedRegion other = region;
  auto early = UserRegion<Inline>::take(region);
  EXPECT_EQ(early.code(), Code::not_ready);
  ASSERT_NE(region, nullptr);
  other.reset();
  auto value = UserRegion<Inline>::take(region);
  ASSERT_TRUE(value.ok());
  EXPECT_NE(value->unique, nullptr);
  EXPECT_EQ(region, nullptr);
  EXPECT_EQ(UserRegion<Inline>::take(region).code(), Code::not_ready);
}

}  // namespace
}  // namespace towpath::memory
