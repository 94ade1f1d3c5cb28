// What a queue lock asks of its words and waits; its orders are interleaving_test.cc's.
#include <array>
#include <atomic>
#include <functional>

#include <gtest/gtest.h>

#include <towpath/shmem/queue_lock.h>

namespace towpath::shmem {
namespace {

/// Of three PEs in one thread: a wait ends by what `meanwhile` does.
struct PlainNodes {
  using Word = std::atomic<std::uint32_t>;

  Word& tail() { return last; }
  Word& node(std::uint32_t pe) { return nodes[pe]; }
  static void nudge(std::uint32_t) {}
  static std::uint32_t pes() { return 3; }
  static bool has_ended(std::uint32_t) { return false; }
  static Status broken(std::uint32_t) { return error(Code::peer_lost, "broken"); }
  template <typename Ready>
  Status wait(const Ready& ready, std::uint32_t pe) {
    waited_for = pe;
    meanwhile();
    return ready() ? Status() : broken(pe);
  }

  Word last{0};
  std::array<Word, 3> nodes{};
  std::uint32_t waited_for = kAnyPe - 1;
  std::function<void()> meanwhile;
};

TEST(QueueLockTest, holder_waits_for_those_behind_it_and_for_nobody_else) {
  PlainNodes nodes;
  QueueLock lock(nodes, 0);
  ASSERT_TRUE(lock.acquire().ok());
  nodes.last = 2;  // PE 1 comes; PE 2 may have ended long ago
  nodes.nodes[1] = 1;
  nodes.meanwhile = [&] { nodes.nodes[0].fetch_or(2U << 1U); };
  EXPECT_TRUE(lock.release().ok());
  EXPECT_EQ(nodes.waited_for, 1U);
  EXPECT_EQ(nodes.nodes[1], 0U) << "it has the lock";
}

TEST(QueueLockTest, holder_hears_that_the_one_behind_it_has_ended) {
  PlainNodes nodes;
  QueueLock lock(nodes, 0);
  ASSERT_TRUE(lock.acquire().ok());
  nodes.last = 2;
  nodes.meanwhile = [] {};
  EXPECT_EQ(lock.release().code(), Code::peer_lost);
  EXPECT_EQ(nodes.last, kLockBroken | 2U) << "by PE 1";
}

// PE 2 waits behind one that has died, and hears of it only now; it was PE 1's successor before.
TEST(QueueLockTest, one_that_is_not_the_holder_lets_nobody_into_a_broken_lock) {
  PlainNodes nodes;
  nodes.last = kLockBroken | 1U;
  nodes.nodes[1] = kLockBroken | 3U << 1U;
  nodes.nodes[2] = 1;
  EXPECT_EQ(QueueLock(nodes, 1).release().code(), Code::peer_lost);
  EXPECT_EQ(nodes.nodes[2], 1U) << "it waits";
}

TEST(QueueLockTest, one_that_did_not_get_it_in_time_lets_nobody_in) {
  PlainNodes nodes;
  nodes.last = 1;  // PE 0 has it
  nodes.nodes[2] = 1;
  nodes.meanwhile = [&] { nodes.nodes[1].fetch_or(3U << 1U); };  // PE 2 comes
  QueueLock lock(nodes, 1);
  EXPECT_EQ(lock.acquire().code(), Code::peer_lost);
  EXPECT_EQ(lock.release().code(), Code::peer_lost);
  EXPECT_EQ(nodes.nodes[2], kLockBroken | 1U) << "it waits";
  EXPECT_EQ(lock.acquire().code(), Code::peer_lost);
}

}  // namespace
}  // namespace towpath::shmem
