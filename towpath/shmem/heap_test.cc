// The deterministic allocator, against a map of what lies where.
#include <map>
#include <random>

#include <gtest/gtest.h>

#include <towpath/shmem/heap.h>

namespace towpath::shmem {
namespace {

TEST(HeapTest, blocks_never_overlap_and_two_heaps_agree) {
  const auto seed = static_cast<unsigned>(::testing::UnitTest::GetInstance()->random_seed());
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  Heap heap(1 << 20, 200), other(1 << 20, 200);
  std::map<std::uint64_t, BlockPlace> living;  // by end
  for (int step = 0; step < 5000; ++step) {
    if (random() % 2 == 0 && !living.empty()) {
      auto victim = std::next(living.begin(), random() % living.size());
      heap.release(victim->second.slot);
      other.release(victim->second.slot);
      living.erase(victim);
      continue;
    }
    const BlockShape shape{.size_bytes = 1 + random() % 20000,
                           .alignment = 1ULL << (random() % 13)};
    const auto block = heap.allocate(shape), same = other.allocate(shape);
    ASSERT_EQ(block.ok(), same.ok());
    if (!block.ok()) continue;
    ASSERT_EQ(block->offset, same->offset);
    ASSERT_EQ(block->slot, same->slot);
    ASSERT_EQ(block->offset % shape.alignment, 0u);
    const std::uint64_t end = block->offset + shape.size_bytes;
    ASSERT_LE(end, heap.size());
    const auto next = living.upper_bound(block->offset);
    ASSERT_TRUE(next == living.end() || next->second.offset >= end);
    living.emplace(end, *block);
    ASSERT_EQ(heap.block_at(end - 1)->slot, block->slot);
  }
  for (const auto& [end, block] : living) heap.release(block.slot);
  EXPECT_EQ(heap.free_bytes(), heap.size());
}

TEST(HeapTest, an_aligned_block_needs_no_more_than_its_bytes) {
  Heap heap(1 << 20, 200);
  const BlockShape whole{.size_bytes = 1 << 20, .alignment = 4096};
  for (int round = 0; round < 2; ++round) {
    const auto all = heap.allocate(whole);
    ASSERT_TRUE(all.ok()) << all.status().to_string();
    EXPECT_EQ(all->offset, 0u);
    heap.release(all->slot);
  }
  // Between two others, where one of its size was.
  const BlockShape page{.size_bytes = 4096, .alignment = 4096};
  ASSERT_TRUE(heap.allocate({.size_bytes = 64}).ok());
  const auto first = heap.allocate(page);
  ASSERT_TRUE(first.ok() && heap.allocate({.size_bytes = (1 << 20) - 8192}).ok());
  heap.release(first->slot);
  const auto again = heap.allocate(page);
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(again->offset, 4096u);
  EXPECT_NE(heap.allocate(page).status().message().find("at a multiple of 4096"),
            std::string::npos);
}

TEST(HeapTest, slots_run_out_with_words) {
  Heap heap(1 << 20, 2);
  ASSERT_TRUE(heap.allocate({.size_bytes = 1}).ok() && heap.allocate({.size_bytes = 1}).ok());
  const std::uint64_t before = heap.free_bytes();
  const auto third = heap.allocate({.size_bytes = 1});
  EXPECT_EQ(third.code(), Code::exhausted);
  EXPECT_EQ(heap.free_bytes(), before) << "nothing was lost";
  EXPECT_EQ(heap.allocate({.size_bytes = ~0ULL}).code(), Code::exhausted);
}

}  // namespace
}  // namespace towpath::shmem
