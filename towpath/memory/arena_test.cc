#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/memory/arena.h>
#include <towpath/memory/borrowed.h>
#include <towpath/memory/system_region.h>
#include <towpath/memory/testing/observe.h>
#include <towpath/memory/view.h>

namespace towpath::memory {
namespace {

using testing::says;

constexpr std::uint64_t kPage = 4096;

Arena arena_of(std::uint64_t size_bytes) {
  auto arena = Arena::create(*SystemRegion::allocate(size_bytes), {.page_size_bytes = kPage});
  EXPECT_TRUE(arena.ok()) << arena.status().to_string();
  return *std::move(arena);
}

ArenaBuffer take(Arena& arena, std::uint64_t size_bytes) {
  auto buffer = arena.allocate(size_bytes);
  EXPECT_TRUE(buffer.ok()) << buffer.status().to_string();
  return buffer.ok() ? *std::move(buffer) : ArenaBuffer();
}

TEST(ArenaTest, a_page_size_that_is_no_power_of_two_is_refused) {
  const SharedRegion base = *SystemRegion::allocate(16 * kPage);
  for (const std::uint64_t page : {std::uint64_t{0}, kPage + 1, 3 * kPage})
    EXPECT_EQ(Arena::create(base, {.page_size_bytes = page}).code(), Code::invalid_argument);
  EXPECT_TRUE(Arena::create(base, {.page_size_bytes = 1}).ok());
}

TEST(ArenaTest, a_base_without_a_whole_page_is_refused) {
  EXPECT_EQ(Arena::create(*SystemRegion::allocate(kPage - 1)).code(), Code::invalid_argument);
  EXPECT_EQ(Arena::create(nullptr).code(), Code::invalid_argument);
}

TEST(ArenaTest, the_first_buffer_is_at_the_base_and_the_next_beside_it) {
  Arena arena = arena_of(16 * kPage);
  const std::uint64_t base = arena.base()->descriptor().address;
  const ArenaBuffer a = take(arena, kPage);
  const ArenaBuffer b = take(arena, 2 * kPage);
  const ArenaBuffer c = take(arena, kPage);
  EXPECT_EQ(a.descriptor().address, base);
  EXPECT_EQ(b.descriptor().address, base + kPage);
  EXPECT_EQ(c.descriptor().address, base + 3 * kPage);
}

TEST(ArenaTest, reports_the_size_asked_for_and_takes_whole_pages) {
  for (const std::uint64_t size : {std::uint64_t{1}, kPage - 1, kPage, kPage + 1}) {
    Arena arena = arena_of(16 * kPage);
    const ArenaBuffer buffer = take(arena, size);
    EXPECT_EQ(buffer.size(), size);
    EXPECT_EQ(buffer.bytes().size(), size);
    const std::uint64_t pages = size <= kPage ? 1 : 2;
    EXPECT_EQ(arena.usage().free_bytes, (16 - pages) * kPage);
  }
}

TEST(ArenaTest, exactly_all_of_it_can_be_had_once) {
  Arena arena = arena_of(16 * kPage);
  const ArenaBuffer all = take(arena, 16 * kPage);
  EXPECT_EQ(arena.usage().free_bytes, 0u);
  EXPECT_EQ(arena.usage().largest_free_bytes, 0u);
  EXPECT_EQ(arena.allocate(1).code(), Code::exhausted);
}

TEST(ArenaTest, what_it_never_has_is_a_mistake_and_not_exhaustion) {
  Arena arena = arena_of(16 * kPage);
  EXPECT_EQ(arena.allocate(16 * kPage + 1).code(), Code::invalid_argument);
  EXPECT_EQ(arena.allocate(UINT64_MAX).code(), Code::invalid_argument);
  EXPECT_EQ(arena.allocate(0).code(), Code::invalid_argument);
}

TEST(ArenaTest, half_plus_one_byte_twice_exhausts_it) {
  Arena arena = arena_of(16 * kPage);
  const ArenaBuffer first = take(arena, 8 * kPage + 1);
  auto second = arena.allocate(8 * kPage + 1);
  EXPECT_EQ(second.code(), Code::exhausted);
  EXPECT_TRUE(says(second.status(), "28672 bytes are free, the largest extent 28672"))
      << second.status().to_string();
}

TEST(ArenaTest, scattered_free_pages_are_reported_apart_from_too_few) {
  Arena arena = arena_of(4 * kPage);
  std::vector<ArenaBuffer> buffers;
  for (int i = 0; i < 4; ++i) buffers.push_back(take(arena, kPage));
  buffers[0] = ArenaBuffer();
  buffers[2] = ArenaBuffer();
  auto two = arena.allocate(2 * kPage);
  EXPECT_EQ(two.code(), Code::exhausted);
  EXPECT_TRUE(says(two.status(), "8192 bytes are free, the largest extent 4096"))
      << two.status().to_string();
}

TEST(ArenaTest, dropped_pages_are_given_out_again) {
  Arena arena = arena_of(16 * kPage);
  std::uint64_t address = 0;
  {
    const ArenaBuffer all = take(arena, 16 * kPage);
    address = all.descriptor().address;
    EXPECT_EQ(arena.usage().buffers, 1u);
  }
  EXPECT_EQ(arena.usage().buffers, 0u);
  EXPECT_EQ(take(arena, 16 * kPage).descriptor().address, address);
}

TEST(ArenaTest, neighbours_merge_in_every_order) {
  std::array order = {0, 1, 2};
  do {
    Arena arena = arena_of(3 * kPage);
    std::array<ArenaBuffer, 3> buffers;
    for (auto& buffer : buffers) buffer = take(arena, kPage);
    for (const int i : order) buffers[static_cast<std::size_t>(i)] = ArenaBuffer();
    EXPECT_EQ(arena.usage().largest_free_bytes, 3 * kPage);
  } while (std::ranges::next_permutation(order).found);
}

TEST(ArenaTest, takes_the_smallest_hole_that_fits) {
  Arena arena = arena_of(16 * kPage);
  ArenaBuffer large = take(arena, 4 * kPage);
  const ArenaBuffer wall = take(arena, kPage);
  ArenaBuffer small = take(arena, 2 * kPage);
  const ArenaBuffer rest = take(arena, 9 * kPage);
  const Part hole = small.part();
  large = ArenaBuffer();
  small = ArenaBuffer();
  EXPECT_EQ(take(arena, 2 * kPage).part(), hole);
}

TEST(ArenaTest, bytes_behind_the_last_whole_page_are_not_used) {
  Arena arena = arena_of(2 * kPage + 100);
  EXPECT_EQ(arena.usage().capacity_bytes, 2 * kPage);
  EXPECT_EQ(arena.allocate(2 * kPage + 1).code(), Code::invalid_argument);
}

TEST(ArenaTest, a_moved_buffer_gives_its_pages_back_once) {
  Arena arena = arena_of(4 * kPage);
  {
    ArenaBuffer first = take(arena, kPage);
    ArenaBuffer second = std::move(first);
    EXPECT_EQ(first.size(), 0u);  // NOLINT: moved from is empty
    EXPECT_EQ(first.registration(), nullptr);
    ArenaBuffer& same = second;
    second = std::move(same);  // to itself
    EXPECT_EQ(second.size(), kPage);
    EXPECT_EQ(arena.usage().buffers, 1u);
  }
  EXPECT_EQ(arena.usage().buffers, 0u);
  EXPECT_EQ(arena.usage().free_bytes, 4 * kPage);
}

TEST(ArenaTest, assigning_over_a_buffer_gives_its_pages_back_at_once) {
  Arena arena = arena_of(4 * kPage);
  ArenaBuffer kept = take(arena, 4 * kPage);
  ArenaBuffer other;
  kept = std::move(other);
  EXPECT_EQ(arena.usage().free_bytes, 4 * kPage);
}

TEST(ArenaTest, a_buffer_outlives_its_arena_and_the_users_hold_on_the_base) {
  auto base = *SystemRegion::allocate(4 * kPage);
  const std::weak_ptr<SystemRegion> watched = base;
  ArenaBuffer buffer;
  {
    Arena arena = *Arena::create(std::move(base));
    buffer = take(arena, 10);
  }
  ASSERT_FALSE(watched.expired());
  buffer.bytes()[9] = std::byte{1};
  buffer = ArenaBuffer();
  EXPECT_TRUE(watched.expired());
}

TEST(ArenaTest, a_shared_buffer_is_a_region_that_views_hold) {
  Arena arena = arena_of(4 * kPage);
  auto shared = std::make_shared<ArenaBuffer>(take(arena, kPage));
  auto view = View::create(shared, {.offset = 10, .size_bytes = 10});
  ASSERT_TRUE(view.ok());
  shared.reset();
  EXPECT_EQ(arena.usage().buffers, 1u);
  view->reset();
  EXPECT_EQ(arena.usage().buffers, 0u);
}

TEST(ArenaTest, pages_of_a_file_are_offsets_into_it) {
  const SharedRegion file =
      *BorrowedRegion::create({.kind = MemoryKind::disk, .size_bytes = 8 * kPage, .device_id = 5});
  Arena arena = *Arena::create(file);
  const ArenaBuffer first = take(arena, 1);
  const ArenaBuffer second = take(arena, 1);
  EXPECT_EQ(second.descriptor().address, kPage);
  EXPECT_EQ(second.descriptor().fd, 5);
  EXPECT_EQ(second.kind(), MemoryKind::disk);
}

TEST(ArenaTest, many_threads_never_share_a_page) {
  Arena arena = arena_of(64 * kPage);
  const auto work = [&](int id) {
    Arena mine = arena;
    std::vector<ArenaBuffer> held;
    for (int round = 0; round < 400; ++round) {
      auto got = mine.allocate(static_cast<std::uint64_t>(round % 3 + 1) * kPage);
      if (got.ok()) {
        std::memset(got->bytes().data(), id, got->size());
        held.push_back(*std::move(got));
      }
      if (held.size() > 6 || !got.ok()) {
        for (const ArenaBuffer& buffer : held)
          for (const std::byte byte : buffer.bytes())
            if (byte != static_cast<std::byte>(id)) ADD_FAILURE() << "another thread's bytes";
        held.clear();
      }
    }
  };
  std::vector<std::thread> threads;
  for (int id = 1; id <= 4; ++id) threads.emplace_back(work, id);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(arena.usage().free_bytes, 64 * kPage);
  EXPECT_EQ(arena.usage().largest_free_bytes, 64 * kPage);
}

}  // namespace
}  // namespace towpath::memory
