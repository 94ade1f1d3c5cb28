#include <cstring>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/memory/shared_region.h>
#include <towpath/sys/memfd.h>

namespace towpath::memory {
namespace {

constexpr std::uint64_t kUnit = 4096;

std::shared_ptr<SharedMemoryRegion> create(std::uint64_t size_bytes) {
  auto region = SharedMemoryRegion::create({.name = "test", .size_bytes = size_bytes});
  EXPECT_TRUE(region.ok()) << region.status().to_string();
  return *std::move(region);
}

/// What a peer would get: a descriptor of its own.
sys::Fd second(const SharedMemoryRegion& region) { return sys::Fd(::dup(region.descriptor().fd)); }

/// A memfd that was never sealed.
sys::Fd unsealed(std::uint64_t size_bytes) {
  sys::Fd fd(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(size_bytes)), 0);
  return fd;
}

TEST(SharedMemoryRegionTest, reports_its_memfd_and_is_zeroed) {
  const auto region = create(3 * kUnit + 5);
  const RegionDescriptor self = region->descriptor();
  EXPECT_EQ(self.kind, MemoryKind::system);
  EXPECT_EQ(self.length, 3 * kUnit + 5);
  EXPECT_EQ(self.address % kUnit, 0u);
  EXPECT_GE(self.fd, 0);
  EXPECT_EQ(self.fd_offset, 0u);
  EXPECT_EQ(region->bytes()[3 * kUnit + 4], std::byte{0});
  EXPECT_TRUE(sys::check_sealed(self.fd, self.length).ok());
}

TEST(SharedMemoryRegionTest, both_mappings_see_the_same_bytes) {
  const auto ours = create(2 * kUnit);
  auto theirs = SharedMemoryRegion::map(second(*ours), {.size_bytes = 2 * kUnit});
  ASSERT_TRUE(theirs.ok()) << theirs.status().to_string();
  EXPECT_NE((*theirs)->descriptor().address, ours->descriptor().address);
  ours->bytes()[kUnit] = std::byte{42};
  EXPECT_EQ((*theirs)->bytes()[kUnit], std::byte{42});
}

TEST(SharedMemoryRegionTest, another_process_maps_and_writes) {
  const auto ours = create(kUnit);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto theirs = SharedMemoryRegion::map(second(*ours), {.size_bytes = kUnit});
    if (!theirs.ok()) ::_exit(1);
    std::memcpy((*theirs)->bytes().data(), "hello", 5);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(as_text(ours->bytes().first(5)), "hello");
}

TEST(SharedMemoryRegionTest, a_part_maps_at_its_offset) {
  const auto ours = create(4 * kUnit);
  ours->bytes()[2 * kUnit] = std::byte{9};
  auto part = SharedMemoryRegion::map(second(*ours), {.fd_offset = 2 * kUnit, .size_bytes = kUnit});
  ASSERT_TRUE(part.ok()) << part.status().to_string();
  EXPECT_EQ((*part)->descriptor().fd_offset, 2 * kUnit);
  EXPECT_EQ((*part)->bytes()[0], std::byte{9});
}

TEST(SharedMemoryRegionTest, a_chosen_address_is_kept_and_never_taken_from_another) {
  const auto ours = create(kUnit);
  void* free_place = ::mmap(nullptr, kUnit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(free_place, MAP_FAILED);
  ASSERT_EQ(::munmap(free_place, kUnit), 0);
  auto there = SharedMemoryRegion::map(second(*ours), {.size_bytes = kUnit, .at = free_place});
  ASSERT_TRUE(there.ok()) << there.status().to_string();
  EXPECT_EQ((*there)->descriptor().address, address_of(free_place));
  auto again = SharedMemoryRegion::map(second(*ours), {.size_bytes = kUnit, .at = free_place});
  EXPECT_EQ(again.code(), Code::already_exists);
}

TEST(SharedMemoryRegionTest, zero_bytes_are_refused) {
  EXPECT_EQ(SharedMemoryRegion::create({}).code(), Code::invalid_argument);
  const auto ours = create(kUnit);
  EXPECT_EQ(SharedMemoryRegion::map(second(*ours), {}).code(), Code::invalid_argument);
}

TEST(SharedMemoryRegionTest, what_is_not_sealed_is_refused) {
  auto region = SharedMemoryRegion::map(unsealed(kUnit), {.size_bytes = kUnit});
  EXPECT_EQ(region.code(), Code::denied) << region.status().to_string();
}

TEST(SharedMemoryRegionTest, smaller_than_promised_is_refused) {
  const auto ours = create(kUnit);
  EXPECT_EQ(SharedMemoryRegion::map(second(*ours), {.size_bytes = kUnit + 1}).code(),
            Code::out_of_range);
  EXPECT_EQ(SharedMemoryRegion::map(second(*ours), {.fd_offset = kUnit, .size_bytes = 1}).code(),
            Code::out_of_range);
  EXPECT_EQ(SharedMemoryRegion::map(second(*ours),
                                    {.fd_offset = UINT64_MAX - kUnit + 1, .size_bytes = kUnit})
                .code(),
            Code::out_of_range);
}

TEST(SharedMemoryRegionTest, unaligned_places_are_refused) {
  const auto ours = create(2 * kUnit);
  EXPECT_EQ(SharedMemoryRegion::map(second(*ours), {.fd_offset = 1, .size_bytes = 1}).code(),
            Code::invalid_argument);
  EXPECT_EQ(SharedMemoryRegion::map(second(*ours),
                                    {.size_bytes = kUnit, .at = reinterpret_cast<void*>(4097)})
                .code(),
            Code::invalid_argument);
}

TEST(SharedMemoryRegionTest, no_descriptor_is_refused) {
  EXPECT_EQ(SharedMemoryRegion::map(sys::Fd(), {.size_bytes = kUnit}).code(),
            Code::invalid_argument);
}

TEST(SharedMemoryRegionTest, a_refused_descriptor_is_closed) {
  sys::Fd fd = unsealed(kUnit);
  const int number = fd.get();
  EXPECT_FALSE(SharedMemoryRegion::map(std::move(fd), {.size_bytes = kUnit}).ok());
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
}

}  // namespace
}  // namespace towpath::memory
