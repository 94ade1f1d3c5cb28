#include <gtest/gtest.h>

#include <towpath/kv/tiers/admission.h>
#include <towpath/kv/tiers/demotion_queue.h>
#include <towpath/kv/tiers/promotion.h>

namespace towpath::kv {
namespace {

using Offered = DemotionQueue::Offered;

DemotionQueue::Waiting waiting(BlockHash hash, std::uint8_t priority = 50,
                               std::uint64_t owner = 0) {
  return {{hash, 0, 0}, {priority, owner}, {static_cast<std::int64_t>(hash)}};
}

TEST(DemotionQueueTest, the_most_urgent_goes_first_and_of_equals_who_came_first) {
  DemotionQueue queue(8);
  for (const auto& one : {waiting(1), waiting(2, 90), waiting(3), waiting(4, 10), waiting(5, 90)})
    EXPECT_EQ(queue.offer(one), Offered::taken);
  EXPECT_EQ(queue.offer(waiting(3, 99)), Offered::known);
  EXPECT_EQ(queue.oldest(), Instant{1});
  for (const BlockHash expected : {2U, 5U, 1U, 3U, 4U})
    EXPECT_EQ(queue.pop()->block.hash, expected);
  EXPECT_FALSE(queue.pop());
  EXPECT_EQ(queue.oldest(), Instant::never());
}

TEST(DemotionQueueTest, a_full_queue_gives_up_the_least_urgent_and_never_grows) {
  DemotionQueue queue(2);
  (void)queue.offer(waiting(1));
  (void)queue.offer(waiting(2, 60));
  EXPECT_EQ(queue.offer(waiting(3)), Offered::refused);
  EXPECT_EQ(queue.offer(waiting(4, 70)), Offered::in_place);
  EXPECT_EQ(queue.size(), 2U);
  EXPECT_EQ(queue.pop()->block.hash, 4U);
  EXPECT_EQ(queue.pop()->block.hash, 2U);
  EXPECT_EQ(DemotionQueue(0).offer(waiting(1)), Offered::refused);
}

TEST(DemotionQueueTest, an_owner_s_are_cancelled_together) {
  DemotionQueue queue(8);
  for (BlockHash hash = 1; hash <= 6; ++hash) (void)queue.offer(waiting(hash, 50, hash % 2));
  EXPECT_EQ(queue.cancel(1), 3U);
  EXPECT_EQ(queue.size(), 3U);
  EXPECT_EQ(queue.pop()->block.hash, 2U);
  EXPECT_EQ(queue.offer(waiting(1)), Offered::taken) << "it may come again";
}

TEST(AdmissionTest, what_was_seen_once_may_be_asked_to_come_again) {
  Admission all({}, 100);
  EXPECT_TRUE(all.admits(1, 0));
  Admission second({.min_accesses = 2, .min_priority = 20}, 100);
  second.see(1);
  EXPECT_FALSE(second.admits(1, 50));
  second.see(1);
  EXPECT_TRUE(second.admits(1, 50));
  EXPECT_FALSE(second.admits(1, 19));
}

std::vector<CachedBlock> blocks(BlockHash from, BlockHash to) {
  std::vector<CachedBlock> all;
  for (BlockHash hash = from; hash <= to; ++hash) all.push_back({hash, {}});
  return all;
}

TEST(PromotionQueueTest, settles_the_most_urgent_first_block_by_block) {
  PromotionQueue queue(10);
  auto slow = *queue.add(blocks(1, 2), 10);
  auto fast = *queue.add(blocks(11, 12), 20);
  std::vector<BlockHash> order;
  while (const auto next = queue.next()) {
    order.push_back(next->block.hash);
    queue.settle(*next, {{}, error(Code::not_found, "a test")});
  }
  EXPECT_EQ(order, (std::vector<BlockHash>{11, 12, 1, 2}));
  EXPECT_TRUE(slow.ended() && fast.ended());
  EXPECT_EQ(slow.take().size(), 2U);
  EXPECT_TRUE(slow.take().empty()) << "once";
  EXPECT_EQ(queue.size(), 0U);
}

TEST(PromotionQueueTest, more_than_there_is_room_for_are_refused) {
  PromotionQueue queue(3);
  const auto first = queue.add(blocks(1, 2), 50);
  EXPECT_EQ(queue.add(blocks(3, 4), 50).code(), Code::exhausted);
  EXPECT_TRUE(queue.add(blocks(3, 3), 50).ok());
  EXPECT_TRUE(queue.add({}, 50)->ended());
}

TEST(PromotionQueueTest, what_nobody_wants_any_more_is_not_begun) {
  PromotionQueue queue(10);
  auto cancelled = *queue.add(blocks(1, 3), 50);
  (void)queue.add(blocks(4, 5), 50);  // whose handle is gone at once
  queue.settle(*queue.next(), {});
  cancelled.cancel();
  EXPECT_FALSE(queue.has_next([](const CachedBlock&) { return true; }));
  EXPECT_FALSE(queue.next());
  ASSERT_TRUE(cancelled.ended());
  const auto results = cancelled.take();
  EXPECT_TRUE(results[0].status.ok());
  EXPECT_EQ(results[2].status.code(), Code::cancelled);
  EXPECT_EQ(queue.cancelled(), 4U);
  EXPECT_EQ(queue.size(), 0U);
}

}  // namespace
}  // namespace towpath::kv
