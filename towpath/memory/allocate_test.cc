#include <gtest/gtest.h>

#include <towpath/device/host/host_driver.h>
#include <towpath/memory/allocate.h>
#include <towpath/memory/pinned_region.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::memory {
namespace {

TEST(AllocateTest, system_memory) {
  auto region = allocate({.kind = MemoryKind::system, .size_bytes = 100});
  ASSERT_TRUE(region.ok());
  EXPECT_EQ((*region)->kind(), MemoryKind::system);
  EXPECT_EQ((*region)->size(), 100u);
}

TEST(AllocateTest, disk_takes_the_size_of_the_allocation) {
  auto directory = sys::TemporaryDirectory::create();
  ASSERT_TRUE(directory.ok());
  sys::SystemFileSystem files;
  auto region = allocate({.kind = MemoryKind::disk,
                          .size_bytes = 8192,
                          .disk = {.path = directory->path() + "/", .size_bytes = 1},
                          .files = &files});
  ASSERT_TRUE(region.ok()) << region.status().to_string();
  EXPECT_EQ((*region)->kind(), MemoryKind::disk);
  EXPECT_EQ((*region)->size(), 8192u);
}

TEST(AllocateTest, disk_needs_a_file_system) {
  auto region = allocate({.kind = MemoryKind::disk, .size_bytes = 1, .disk = {.path = "x"}});
  EXPECT_EQ(region.code(), Code::invalid_argument);
  EXPECT_FALSE(region.status().hint().empty());
}

TEST(AllocateTest, zero_bytes_of_any_kind_are_refused) {
  for (const MemoryKind kind : kMemoryKinds)
    EXPECT_EQ(allocate({.kind = kind}).code(), Code::invalid_argument) << name_of(kind);
}

TEST(AllocateTest, what_a_kind_needs_and_was_not_given_is_reported) {
  for (const MemoryKind kind : {MemoryKind::pinned, MemoryKind::device, MemoryKind::block}) {
    const Status status = allocate({.kind = kind, .size_bytes = 4096}).status();
    EXPECT_EQ(status.code(), Code::unsupported) << name_of(kind);
    EXPECT_NE(status.message().find(name_of(kind)), std::string::npos) << status.to_string();
    EXPECT_FALSE(status.hint().empty()) << name_of(kind);
  }
  EXPECT_EQ(allocate({.kind = MemoryKind::object, .size_bytes = 1}).code(), Code::invalid_argument);
}

TEST(AllocateTest, each_kind_with_what_it_needs) {
  const sys::SystemClock clock;
  device::HostDriver driver(clock);
  const auto device = driver.open(0).value();
  const auto pinned = PinnedAllocator::create(device, clock).value();
  const auto kind_of = [](const Allocation& what) {
    const auto region = allocate(what);
    EXPECT_TRUE(region.ok()) << region.status().to_string();
    EXPECT_EQ((*region)->size(), 5000u);
    return (*region)->kind();
  };
  EXPECT_EQ(kind_of({.kind = MemoryKind::device, .size_bytes = 5000, .device = device}),
            MemoryKind::device);
  EXPECT_EQ(kind_of({.kind = MemoryKind::pinned, .size_bytes = 5000, .pinned = pinned.get()}),
            MemoryKind::pinned);
  EXPECT_EQ(kind_of({.kind = MemoryKind::object, .size_bytes = 5000, .object = {.key = "k"}}),
            MemoryKind::object);
}

TEST(AllocateTest, a_number_that_is_no_kind_is_unsupported) {
  EXPECT_EQ(allocate({.kind = static_cast<MemoryKind>(99), .size_bytes = 1}).code(),
            Code::unsupported);
}

}  // namespace
}  // namespace towpath::memory
