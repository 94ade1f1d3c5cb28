#include <memory>

#include <gtest/gtest.h>

#include <towpath/run/spsc_ring.h>
#include <towpath/run/worker.h>

namespace towpath::run {
namespace {

TEST(SpscRingTest, full_ring_refuses_and_leaves_the_value_alone) {
  SpscRing<std::unique_ptr<int>> ring(2);
  ASSERT_EQ(ring.capacity(), 2U);
  ASSERT_TRUE(ring.push(std::make_unique<int>(1)));
  ASSERT_TRUE(ring.push(std::make_unique<int>(2)));
  auto third = std::make_unique<int>(3);
  EXPECT_FALSE(ring.push(std::move(third)));
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(**ring.pop(), 1);
  EXPECT_TRUE(ring.push(std::move(third)));
  EXPECT_EQ(**ring.pop(), 2);
  EXPECT_EQ(**ring.pop(), 3);
  EXPECT_FALSE(ring.pop().has_value());
}

TEST(SpscRingTest, works_with_room_for_one) {
  SpscRing<int> ring(0);
  ASSERT_EQ(ring.capacity(), 1U);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(ring.push(i));
    EXPECT_FALSE(ring.push(i));
    EXPECT_EQ(ring.pop(), i);
  }
}

TEST(SpscRingTest, values_left_inside_are_destroyed_with_it) {
  auto counted = std::make_shared<int>(0);
  {
    SpscRing<std::shared_ptr<int>> ring(4);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(ring.push(counted));
    (void)ring.pop();
  }
  EXPECT_EQ(counted.use_count(), 1);
}

TEST(SpscRingTest, hands_everything_over_in_order) {
  constexpr std::uint32_t kCount = 20'000;
  SpscRing<std::unique_ptr<std::uint32_t>> ring(8);
  auto producer = Worker::start("producer", [&](const StopToken&) {
                    for (std::uint32_t i = 0; i < kCount; ++i) {
                      auto value = std::make_unique<std::uint32_t>(i);
                      while (!ring.push(std::move(value))) sched_yield();
                    }
                  }).value();
  for (std::uint32_t expected = 0; expected < kCount;) {
    if (auto value = ring.pop()) {
      ASSERT_EQ(**value, expected++);
    } else {
      sched_yield();
    }
  }
}

}  // namespace
}  // namespace towpath::run
