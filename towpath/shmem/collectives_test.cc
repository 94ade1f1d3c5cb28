// Broadcast, collect, alltoall and reduce against what they should give.
#include <algorithm>
#include <array>
#include <functional>
#include <latch>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include <towpath/run/eventually.h>
#include <towpath/shmem/collectives.h>
#include <towpath/shmem/testing/pes.h>

namespace towpath::shmem {
namespace {

class CollectivesTest : public testing::EngineTest {};
TOWPATH_ON_EVERY_ENGINE(CollectivesTest);
class LockTest : public testing::EngineTest {};
TOWPATH_ON_EVERY_ENGINE(LockTest);

void fill(const SymmetricBuffer<int>& buffer, int pe) {
  std::iota(buffer.local().begin(), buffer.local().end(), 1000 * pe);
}

TEST_P(CollectivesTest, broadcast_reaches_all_and_the_root) {
  as_threads({.pes = 3}, [](Context& context) {
    auto source = context.allocate<int>(10), target = context.allocate_zeroed<int>(10);
    fill(*source, context.my_pe());
    for (int root = 0; root < 3; ++root) {
      ASSERT_TRUE(broadcast(context.world(), *target, *source, {.root = root, .count = 9}).ok());
      EXPECT_EQ(target->local()[8], 1000 * root + 8);
      EXPECT_EQ(target->local()[9], 0);
    }
    EXPECT_EQ(broadcast(context.world(), *target, *source, {.root = 3, .count = 1}).code(),
              Code::out_of_range);
    EXPECT_EQ(broadcast(context.world(), *target, *source, {.root = 0, .count = 11}).code(),
              Code::out_of_range);
    const Status differs =
        broadcast(context.world(), *target, *source, {.root = context.my_pe(), .count = 1});
    EXPECT_EQ(differs.code(), Code::invalid_argument) << differs.to_string();
    EXPECT_TRUE(context.barrier().ok());
  });
}

TEST_P(CollectivesTest, collect_joins_parts_of_different_lengths) {
  as_threads({.pes = 3}, [](Context& context) {
    auto source = context.allocate<int>(4), target = context.allocate_zeroed<int>(6);
    fill(*source, context.my_pe());
    const auto count = static_cast<std::uint64_t>(context.my_pe() + 1);
    EXPECT_EQ(*collect(context.world(), *target, *source, count), 6u);
    EXPECT_TRUE(
        std::ranges::equal(target->local(), std::vector<int>{0, 1000, 1001, 2000, 2001, 2002}));
    EXPECT_EQ(collect(context.world(), *target, *source, 4).code(), Code::out_of_range);
    EXPECT_EQ(*collect(context.world(), *target, *source, 0), 0u);
  });
}

TEST_P(CollectivesTest, a_count_that_one_member_has_wrong_is_an_error_on_all) {
  as_threads({.pes = 3}, [](Context& context) {
    const Team world = context.world();
    auto source = context.allocate<int>(10), target = context.allocate<int>(100);
    const auto count = [&](std::uint64_t wrong) { return context.my_pe() == 1 ? wrong : 9; };
    for (const std::uint64_t wrong : {std::uint64_t{11}, ~std::uint64_t{0}}) {
      EXPECT_EQ(broadcast(world, *target, *source, {.count = count(wrong)}).code(),
                Code::invalid_argument);
      EXPECT_EQ(reduce(world, *target, *source, {.count = count(wrong)}).code(),
                Code::invalid_argument);
      const Status refused = collect(world, *target, *source, count(wrong)).status();
      EXPECT_EQ(refused.code(), Code::out_of_range) << "members may differ here";
      EXPECT_NE(refused.message().find(cat("PE 1 collects ", wrong, " elements")),
                std::string::npos)
          << refused.to_string();
    }
    EXPECT_EQ(reduce(world, *target, *source, {.count = 11}).code(), Code::out_of_range);
    EXPECT_TRUE(world.barrier().ok());
  });
}

TEST_P(CollectivesTest, alltoall_transposes) {
  as_threads({.pes = 3}, [](Context& context) {
    auto source = context.allocate<int>(6), target = context.allocate_zeroed<int>(6);
    fill(*source, context.my_pe());
    ASSERT_TRUE(alltoall(context.world(), *target, *source, 2).ok());
    for (int from = 0; from < 3; ++from)
      EXPECT_EQ(target->local()[2 * from + 1], 1000 * from + 2 * context.my_pe() + 1);
    EXPECT_EQ(alltoall(context.world(), *target, *source, 3).code(), Code::out_of_range);
    EXPECT_EQ(alltoall(context.world(), *target, *source, ~0ULL / 8).code(), Code::out_of_range);
  });
}

template <typename T>
T reduced(Context& context, ReduceOp op, T mine) {
  auto buffer = context.allocate<T>(1);
  buffer->local()[0] = mine;
  const Status status = reduce(context.world(), *buffer, *buffer, {.op = op, .count = 1});
  EXPECT_TRUE(status.ok()) << status.to_string();
  return buffer->local()[0];
}

TEST_P(CollectivesTest, reductions_of_every_kind) {
  as_threads({.pes = 3}, [](Context& context) {
    const int mine = context.my_pe() + 2;  // 2, 3, 4
    EXPECT_EQ(reduced(context, ReduceOp::sum, mine), 9);
    EXPECT_EQ(reduced(context, ReduceOp::product, mine), 24);
    EXPECT_EQ(reduced(context, ReduceOp::min, mine), 2);
    EXPECT_EQ(reduced(context, ReduceOp::max, mine), 4);
    EXPECT_EQ(reduced(context, ReduceOp::bit_and, mine), 2 & 3 & 4);
    EXPECT_EQ(reduced(context, ReduceOp::bit_or, mine), 7);
    EXPECT_EQ(reduced(context, ReduceOp::bit_xor, mine), 2 ^ 3 ^ 4);
    EXPECT_EQ(reduced<unsigned char>(context, ReduceOp::sum, 100), 44) << "modulo 256";
    EXPECT_EQ(reduced(context, ReduceOp::max, 0.5 * mine), 2.0);
    auto real = context.allocate<double>(1);
    EXPECT_EQ(reduce(context.world(), *real, *real, {.op = ReduceOp::bit_or, .count = 1}).code(),
              Code::invalid_argument);
  });
}

TEST_P(CollectivesTest, short_reductions_follow_each_other_without_a_barrier) {
  as_threads({.pes = 3}, [](Context& context) {
    auto pair = context.allocate<std::int32_t>(2);
    auto total = context.allocate<std::int32_t>(2);
    for (std::int32_t round = 0; round < 100; ++round) {
      pair->local()[0] = round + context.my_pe();
      pair->local()[1] = -context.my_pe();
      ASSERT_TRUE(reduce(context.world(), *total, *pair, {.count = 2}).ok());
      pair->local()[0] = -1;  // it is ours again
      ASSERT_EQ(total->local()[0], 3 * round + 3);
      ASSERT_EQ(total->local()[1], -3);
    }
    ASSERT_TRUE(context.barrier().ok());
  });
}

TEST_P(CollectivesTest, long_reductions_are_equal_to_the_last_bit) {
  constexpr std::uint64_t kCount = 5003;
  as_threads({.pes = 3}, [](Context& context) {
    auto source = context.allocate<float>(kCount), target = context.allocate<float>(kCount);
    for (std::uint64_t i = 0; i < kCount; ++i)
      source->local()[i] =
          0.1F * static_cast<float>(i + 1) / static_cast<float>(context.my_pe() + 1);
    ASSERT_TRUE(reduce(context.world(), *target, *source, {.count = kCount}).ok());
    for (std::uint64_t i = 0; i < kCount; ++i) {
      const float one = 0.1F * static_cast<float>(i + 1);
      ASSERT_EQ(target->local()[i], one + one / 2.0F + one / 3.0F) << i;
    }
    ASSERT_TRUE(context.barrier().ok());
  });
}

/// 8 KiB.
struct Row {
  std::array<double, 1024> values;

  friend Row operator+(Row a, const Row& b) {
    std::ranges::transform(a.values, b.values, a.values.begin(), std::plus());
    return a;
  }
  friend Row operator*(Row a, const Row& b) {
    std::ranges::transform(a.values, b.values, a.values.begin(), std::multiplies());
    return a;
  }
  friend bool operator<(const Row& a, const Row& b) { return a.values < b.values; }
};

TEST_P(CollectivesTest, elements_may_be_large) {
  as_threads({.pes = 2}, [](Context& context) {
    auto source = context.allocate<Row>(3), target = context.allocate_zeroed<Row>(3);
    for (int row = 0; row < 3; ++row) source->local()[row].values.fill(10 * context.my_pe() + row);
    ASSERT_TRUE(reduce(context.world(), *target, *source, {.op = ReduceOp::sum, .count = 3}).ok());
    for (int row = 0; row < 3; ++row) EXPECT_EQ(target->local()[row].values[1023], 10 + 2 * row);
  });
}

TEST_P(CollectivesTest, parts_of_the_world_work_side_by_side) {
  as_threads({.pes = 4}, [](Context& context) {
    auto pair = context.world().split_2d(2);
    auto value = context.allocate<int>(1);
    for (int round = 0; round < 50; ++round) {
      value->local()[0] = context.my_pe();
      ASSERT_TRUE(reduce(pair->x, *value, *value, {.count = 1}).ok());
      ASSERT_EQ(value->local()[0], context.my_pe() < 2 ? 1 : 5);
      ASSERT_TRUE(reduce(pair->y, *value, *value, {.count = 1}).ok());
      ASSERT_EQ(value->local()[0], 6);
    }
    (void)context.barrier();
  });
}

TEST_P(LockTest, excludes_everybody_else) {
  as_threads({.pes = 3}, [](Context& context) {
    auto lock = context.allocate_lock();
    auto shared = context.allocate_zeroed<int>(1);
    for (int round = 0; round < 200; ++round) {
      ASSERT_TRUE(lock->acquire().ok());
      const int seen = *shared->g({.pe = 0});
      ASSERT_TRUE(shared->p({.pe = 0}, seen + 1).ok());
      ASSERT_TRUE(lock->release().ok());
    }
    ASSERT_TRUE(context.barrier().ok());
    EXPECT_EQ(*shared->g({.pe = 0}), 600);
    (void)context.barrier();
  });
}

/// The next holder may be on another host than the word is: the put must be in place before.
TEST_P(LockTest, next_holder_sees_what_was_put_to_any_pe) {
  constexpr int kPes = 4, kRounds = 50;
  as_threads({.pes = kPes}, [](Context& context) {
    std::vector<Lock> locks;
    for (int pe = 0; pe < kPes; ++pe) locks.push_back(*context.allocate_lock());
    auto guarded = context.allocate_zeroed<int>(1);
    for (int step = 0; step < kPes * kRounds; ++step) {
      const int pe = step % kPes;
      ASSERT_TRUE(locks[static_cast<std::size_t>(pe)].acquire().ok());
      const int seen = *guarded->g({.pe = pe});
      ASSERT_TRUE(guarded->p({.pe = pe}, seen + 1).ok());
      ASSERT_TRUE(locks[static_cast<std::size_t>(pe)].release().ok());
    }
    ASSERT_TRUE(context.barrier().ok());
    EXPECT_EQ(guarded->local()[0], kPes * kRounds);
    (void)context.barrier();
  });
}

TEST(FoldTest, sums_and_products_of_integers_wrap) {
  const auto fold = [](auto a, auto b, ReduceOp op) {
    fold_of<decltype(a)>(op)(&a, &b, 1);
    return a;
  };
  constexpr auto kMost = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ(fold(std::uint16_t{0xffff}, std::uint16_t{0xffff}, ReduceOp::product), 1);
  EXPECT_EQ(fold(std::int16_t{-1}, std::int16_t{2}, ReduceOp::product), -2);
  EXPECT_EQ(fold(kMost, 1, ReduceOp::sum), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(fold(0.5, 4.0, ReduceOp::product), 2.0);
}

TEST_P(LockTest, try_does_not_wait) {
  as_threads({.pes = 2}, [](Context& context) {
    auto lock = context.allocate_lock();
    if (context.my_pe() == 0) {
      EXPECT_TRUE(*lock->try_acquire());
    }
    ASSERT_TRUE(context.barrier().ok());
    if (context.my_pe() == 1) {
      EXPECT_FALSE(*lock->try_acquire());
    }
    ASSERT_TRUE(context.barrier().ok());
    if (context.my_pe() == 0) {
      EXPECT_TRUE(lock->release().ok());
    }
    ASSERT_TRUE(context.barrier().ok());
    if (context.my_pe() == 1) {
      EXPECT_TRUE(*lock->try_acquire() && lock->release().ok());
    }
    EXPECT_EQ(Lock().acquire().code(), Code::not_ready);
    (void)context.barrier();
  });
}

TEST_P(LockTest, one_that_nobody_holds_is_not_released_and_stays_as_it_is) {
  testing::PesOptions pes{.pes = 2};
  pes.context.timeouts.to_wait = std::chrono::seconds(5);  // for a successor that never comes
  as_threads(pes, [](Context& context) {
    auto lock = context.allocate_lock();
    EXPECT_EQ(lock->release().code(), Code::not_ready);
    ASSERT_TRUE(context.barrier().ok());
    EXPECT_TRUE(lock->acquire().ok());
    EXPECT_TRUE(lock->release().ok());
    ASSERT_TRUE(context.barrier().ok());
    EXPECT_EQ(lock->release().code(), Code::not_ready);
    (void)context.barrier();
  });
}

TEST_P(LockTest, holder_alone_releases_it_and_does_not_wait_for_itself) {
  testing::PesOptions pes{.pes = 2};
  pes.context.timeouts.to_wait = std::chrono::seconds(5);  // for itself
  as_threads(pes, [](Context& context) {
    auto lock = context.allocate_lock();
    for (int holder = 0; holder < 2; ++holder) {
      const bool holds = context.my_pe() == holder;
      if (holds) {
        EXPECT_TRUE(lock->acquire().ok());
      }
      ASSERT_TRUE(context.barrier().ok());
      EXPECT_EQ(holds ? lock->acquire().code() : lock->release().code(),
                holds ? Code::already_exists : Code::not_ready);
      ASSERT_TRUE(context.barrier().ok());
      if (holds) {
        EXPECT_TRUE(lock->release().ok());
      }
      ASSERT_TRUE(context.barrier().ok());
    }
  });
}

TEST_P(LockTest, holder_that_tries_keeps_its_queue) {
  testing::PesOptions pes{.pes = 2};
  pes.context.timeouts.to_wait = std::chrono::seconds(20);  // for the turn that never comes
  as_threads(pes, [](Context& context) {
    World& world = *context.underneath();
    auto word = context.allocate_zeroed<std::uint64_t>(1);
    const std::uint64_t at = word->offset();
    if (context.my_pe() == 0) {
      EXPECT_TRUE(acquire_lock(world, at).ok());
    }
    ASSERT_TRUE(context.barrier().ok());
    if (context.my_pe() == 1) {
      EXPECT_TRUE(acquire_lock(world, at).ok());
    } else {
      // The upper half of the word: PE 1 has said that it is next.
      ASSERT_TRUE(run::eventually([&] { return (*word->fetch({.pe = 0}) >> 33U & 0xffff) == 2; }));
      EXPECT_FALSE(*try_acquire_lock(world, at));
    }
    EXPECT_TRUE(release_lock(world, at).ok());
    (void)context.barrier();
  });
}

TEST_P(LockTest, one_that_only_tries_learns_that_the_holder_has_ended) {
  as_threads({.pes = 2}, [](Context& context) {
    auto lock = context.allocate_lock();
    if (context.my_pe() == 1) {
      EXPECT_TRUE(*lock->try_acquire());
    }
    ASSERT_TRUE(context.barrier().ok());
    if (context.my_pe() == 1) return;  // leaves, with the lock
    EXPECT_TRUE(run::eventually([&] { return lock->try_acquire().code() == Code::peer_lost; }));
    EXPECT_EQ(lock->acquire().code(), Code::peer_lost);
  });
}

TEST_P(LockTest, dead_holder_breaks_it_for_all) {
  std::latch all_have_asked(3);
  as_threads({.pes = 4}, [&](Context& context) {
    auto lock = context.allocate_lock();
    auto held = context.allocate_zeroed<std::uint64_t>(1);
    if (context.my_pe() == 3) {
      EXPECT_TRUE(lock->acquire().ok());
      for (int pe = 0; pe < 3; ++pe) EXPECT_TRUE(held->set({.pe = pe}, 1).ok());
      return;  // leaves, with the lock
    }
    (void)held->wait_until(0, {Compare::equal, 1});
    for (int call = 0; call < 3; ++call) {  // later too
      const Status refused = lock->acquire();
      EXPECT_EQ(refused.code(), Code::peer_lost);
      EXPECT_NE(refused.to_string().find("PE 3 "), std::string::npos) << refused.to_string();
    }
    const auto tried = lock->try_acquire();
    EXPECT_EQ(tried.code(), Code::peer_lost) << "a loop of tries would not end";
    EXPECT_NE(tried.status().to_string().find("PE 3 "), std::string::npos);
    all_have_asked.arrive_and_wait();  // whose turn it was and who has left is named too
  });
}

}  // namespace
}  // namespace towpath::shmem
