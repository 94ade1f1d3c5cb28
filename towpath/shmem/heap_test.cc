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
