#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/run/mpsc_queue.h>
#include <towpath/run/worker.h>

namespace towpath::run {
namespace {

TEST(MpscQueueTest, capacity_is_rounded_up_to_a_power_of_two) {
  EXPECT_EQ(MpscQueue<int>(0).capacity(), 2U);
  EXPECT_EQ(MpscQueue<int>(2).capacity(), 2U);
  EXPECT_EQ(MpscQueue<int>(5).capacity(), 8U);
}

TEST(MpscQueueTest, full_queue_refuses_and_leaves_the_value_alone) {
  MpscQueue<std::unique_ptr<int>> queue(2);
  ASSERT_TRUE(queue.push(std::make_unique<int>(1)));
  ASSERT_TRUE(queue.push(std::make_unique<int>(2)));
  auto third = std::make_unique<int>(3);
  EXPECT_FALSE(queue.push(std::move(third)));
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(**queue.pop(), 1);
  EXPECT_TRUE(queue.push(std::move(third)));
  EXPECT_EQ(**queue.pop(), 2);
  EXPECT_EQ(**queue.pop(), 3);
  EXPECT_FALSE(queue.pop().has_value());
}

TEST(MpscQueueTest, values_left_inside_are_destroyed_with_it) {
  auto counted = std::make_shared<int>(0);
  {
    MpscQueue<std::shared_ptr<int>> queue(4);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(queue.push(counted));
    (void)queue.pop();
    EXPECT_EQ(counted.use_count(), 3);
  }
  EXPECT_EQ(counted.use_count(), 1);
}

TEST(MpscQueueTest, loses_and_reorders_nothing_from_each_of_many_producers) {
  constexpr std::uint32_t kEach = 5000;
  struct Item {
    std::uint32_t producer;
    std::unique_ptr<std::uint32_t> number;  // on the heap, so that TSan looks at the ordering
  };
  MpscQueue<Item> queue(16);
  std::vector<Worker> producers;
  for (std::uint32_t producer = 0; producer < 3; ++producer)
    producers.push_back(Worker::start("producer", [&queue, producer](const StopToken&) {
                          for (std::uint32_t i = 0; i < kEach; ++i) {
                            Item item{producer, std::make_unique<std::uint32_t>(i)};
                            while (!queue.push(std::move(item))) sched_yield();
                          }
                        }).value());
  std::vector<std::uint32_t> next(3);
  for (std::uint32_t seen = 0; seen < 3 * kEach;) {
    if (auto item = queue.pop()) {
      ASSERT_EQ(*item->number, next[item->producer]++);
      ++seen;
    } else {
      sched_yield();
    }
  }
  EXPECT_FALSE(queue.pop().has_value());
}

}  // namespace
}  // namespace towpath::run
