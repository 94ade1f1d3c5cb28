#include <climits>
#include <new>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <towpath/sys/fd.h>
#include <towpath/sys/io_ring.h>
#include <towpath/sys/testing/kernel_rings.h>

namespace towpath::sys {
namespace {

struct Done {
  std::uint64_t id = 0;
  std::int32_t result = 0;
};

using Nops = IoRing<std::uint64_t>;

Status prepare_nop(Ring& ring, const std::uint64_t& id) { return ring.nop(id); }

Result<Nops> open_nops(std::uint32_t depth) { return Nops::open(depth, prepare_nop); }

class IoRingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = testing::why_no_rings(); !why.empty()) GTEST_SKIP() << why;
  }
};

/// Ids in the order in which they came, until there are `count`.
std::vector<std::uint64_t> reap(Nops& ring, std::size_t count) {
  std::vector<std::uint64_t> ids;
  std::array<Done, 2> batch;
  while (ids.size() < count) {
    pollfd ready{ring.wait_fd(), POLLIN, 0};
    if (::poll(&ready, 1, 20'000) != 1) return ids;
    ring.clear_wait_fd();
    while (const std::size_t some = ring.reap(std::span<Done>(batch))) {
      for (const Done& done : std::span(batch).first(some)) {
        EXPECT_EQ(done.result, 0);
        ids.push_back(done.id);
      }
    }
  }
  return ids;
}

TEST_F(IoRingTest, what_finds_the_ring_full_waits_for_the_next_flush) {
  auto ring = open_nops(2);
  ASSERT_TRUE(ring.ok()) << ring.status().to_string();
  for (std::uint64_t id = 1; id <= 5; ++id) ring->submit(id);
  EXPECT_FALSE(ring->flush()) << "two went, two more after them, one is left";
  EXPECT_TRUE(ring->flush());
  EXPECT_THAT(reap(*ring, 5), ::testing::ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(IoRingTest, what_comes_later_does_not_overtake_what_waits) {
  auto ring = open_nops(2);
  ASSERT_TRUE(ring.ok()) << ring.status().to_string();
  for (std::uint64_t id = 1; id <= 3; ++id) ring->submit(id);
  ASSERT_TRUE(ring->ring().submit().ok());  // there is room now
  ring->submit(4);
  EXPECT_TRUE(ring->flush());
  EXPECT_THAT(reap(*ring, 4), ::testing::ElementsAre(1, 2, 3, 4));
}

Status prepare_read(Ring& ring, const RingRead& read) { return ring.read(7, read); }

TEST_F(IoRingTest, cancelled_io_comes_back_all_the_same) {
  auto ring = IoRing<RingRead>::open(1, prepare_read);
  ASSERT_TRUE(ring.ok()) << ring.status().to_string();
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const Fd empty(pipe[0]);
  const Fd writer(pipe[1]);
  std::byte byte{};
  ring->submit({.file = {empty.get(), false}, .into = {&byte, 1}});
  ASSERT_TRUE(ring->flush());
  ring->cancel(7);
  pollfd ready{ring->wait_fd(), POLLIN, 0};
  std::array<Done, 1> done;
  while (ring->reap(std::span<Done>(done)) == 0) {
    ASSERT_EQ(::poll(&ready, 1, 20'000), 1);
    ring->clear_wait_fd();
  }
  EXPECT_EQ(done[0].id, 7U);
  EXPECT_THAT(done[0].result, ::testing::AnyOf(-ECANCELED, -EINTR));
}

int calls_with_memory = INT_MAX;
Status prepare_with_memory(Ring& ring, const std::uint64_t& id) {
  if (calls_with_memory-- == 0) throw std::bad_alloc();
  return ring.nop(id);
}

TEST_F(IoRingTest, what_the_ring_has_is_not_handed_in_again_where_memory_runs_out) {
  auto ring = Nops::open(2, prepare_with_memory);
  ASSERT_TRUE(ring.ok()) << ring.status().to_string();
  for (std::uint64_t id = 1; id <= 4; ++id) ring->submit(id);  // two wait
  calls_with_memory = 1;
  EXPECT_THROW((void)ring->flush(), std::bad_alloc);
  calls_with_memory = INT_MAX;
  EXPECT_TRUE(ring->flush());
  EXPECT_THAT(reap(*ring, 4), ::testing::ElementsAre(1, 2, 3, 4));
}

TEST_F(IoRingTest, an_event_that_is_cleared_twice_blocks_nobody) {
  auto ring = open_nops(1);
  ASSERT_TRUE(ring.ok()) << ring.status().to_string();
  ring->clear_wait_fd();
  ring->clear_wait_fd();
  pollfd ready{ring->wait_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 0), 0);
}

TEST_F(IoRingTest, its_descriptor_can_be_made_readable_for_nothing) {
  auto ring = open_nops(1);
  ASSERT_TRUE(ring.ok()) << ring.status().to_string();
  pollfd ready{ring->wait_fd(), POLLIN, 0};
  EXPECT_TRUE(ring->raise_wait_fd());
  EXPECT_EQ(::poll(&ready, 1, 0), 1);
  ring->clear_wait_fd();
  EXPECT_EQ(::poll(&ready, 1, 0), 0);
}

}  // namespace
}  // namespace towpath::sys
