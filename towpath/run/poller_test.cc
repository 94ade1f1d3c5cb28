// Poller, with the two descriptors that are made for it: Waker and TimerFd.
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <towpath/run/eventually.h>
#include <towpath/run/poller.h>
#include <towpath/run/timer_fd.h>
#include <towpath/run/waker.h>
#include <towpath/run/worker.h>
#include <towpath/sys/clock.h>

namespace towpath::run {
namespace {

using std::chrono::milliseconds;

struct Pair {
  Pair() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    near.reset(ends[0]);
    far.reset(ends[1]);
  }
  sys::Fd near;
  sys::Fd far;
};

TEST(PollerTest, reports_which_descriptor_is_ready_for_what) {
  auto poller = Poller::open().value();
  Pair pair;
  ASSERT_TRUE(poller.add(pair.near.get(), 42).ok());
  EXPECT_TRUE(poller.wait(Duration::zero()).empty());
  ASSERT_EQ(write(pair.far.get(), "x", 1), 1);
  auto events = poller.wait(Duration::max());
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].tag, 42U);
  EXPECT_TRUE(events[0].readable);
  EXPECT_FALSE(events[0].writable);
  ASSERT_TRUE(poller.modify(pair.near.get(), 43, {.readable = false, .writable = true}).ok());
  events = poller.wait(Duration::max());
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].tag, 43U);
  EXPECT_TRUE(events[0].writable);
  ASSERT_TRUE(poller.remove(pair.near.get()).ok());
  EXPECT_TRUE(poller.wait(Duration::zero()).empty());
}

TEST(PollerTest, reports_the_end_of_a_stream_as_readable_and_broken) {
  auto poller = Poller::open().value();
  Pair pair;
  ASSERT_TRUE(poller.add(pair.near.get(), 1).ok());
  pair.far.reset();
  const auto events = poller.wait(Duration::max());
  ASSERT_EQ(events.size(), 1U);
  EXPECT_TRUE(events[0].readable);
  EXPECT_TRUE(events[0].broken);
}

TEST(PollerTest, errors_name_the_mistake) {
  auto poller = Poller::open().value();
  Pair pair;
  ASSERT_TRUE(poller.add(pair.near.get(), 1).ok());
  EXPECT_EQ(poller.add(pair.near.get(), 2).code(), Code::already_exists);
  EXPECT_EQ(poller.modify(pair.far.get(), 1, {}).code(), Code::not_found);
  EXPECT_EQ(poller.remove(pair.far.get()).code(), Code::not_found);
  EXPECT_EQ(poller.add(-1, 1).code(), Code::invalid_argument);
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(poller.add(fileno(file), 1).code(), Code::invalid_argument);
  (void)std::fclose(file);
}

TEST(PollerTest, pollers_nest) {
  auto inner = Poller::open().value();
  auto outer = Poller::open().value();
  auto waker = Waker::open().value();
  ASSERT_TRUE(inner.add(waker->fd(), 1).ok());
  ASSERT_TRUE(outer.add(inner.fd(), 2).ok());
  EXPECT_TRUE(outer.wait(Duration::zero()).empty());
  waker->wake();
  ASSERT_EQ(outer.wait(Duration::max()).size(), 1U);
  waker->clear();
  EXPECT_TRUE(outer.wait(Duration::zero()).empty());
}

TEST(PollerTest, timeout_is_rounded_up_so_that_the_moment_has_come) {
  const sys::SystemClock clock;
  auto poller = Poller::open().value();
  const Instant before = clock.now();
  EXPECT_TRUE(poller.wait(Duration(100)).empty());
  EXPECT_GE(clock.now() - before, Duration(100));
}

TEST(WakerTest, many_wakes_make_one_system_call) {
  auto waker = Waker::open().value();
  for (int i = 0; i < 3; ++i) waker->wake();
  std::uint64_t writes = 0;
  ASSERT_EQ(read(waker->fd(), &writes, sizeof writes), 8);
  EXPECT_EQ(writes, 1U);
}

TEST(WakerTest, clear_leaves_a_wake_that_has_not_written_yet_to_the_next_clear) {
  auto waker = Waker::open().value();
  waker->wake();
  std::uint64_t count = 0;
  ASSERT_EQ(read(waker->fd(), &count, sizeof count), 8);  // as if wake() had not come so far
  waker->clear();
  EXPECT_TRUE(waker->is_pending());
  ASSERT_EQ(write(waker->fd(), &count, sizeof count), 8);
  waker->clear();
  EXPECT_FALSE(waker->is_pending());
  EXPECT_LT(read(waker->fd(), &count, sizeof count), 0) << "readable with nobody to clear it";
}

TEST(WakerTest, clear_ends_all_wakes) {
  auto poller = Poller::open().value();
  auto waker = Waker::open().value();
  ASSERT_TRUE(poller.add(waker->fd(), 1).ok());
  waker->clear();
  for (int i = 0; i < 3; ++i) waker->wake();
  EXPECT_TRUE(waker->is_pending());
  waker->clear();
  EXPECT_FALSE(waker->is_pending());
  EXPECT_TRUE(poller.wait(Duration::zero()).empty());
  waker->wake();
  EXPECT_EQ(poller.wait(Duration::max()).size(), 1U);
}

TEST(WakerTest, no_work_is_missed_however_the_sides_interleave) {
  constexpr std::uint64_t kCount = 20'000;
  auto poller = Poller::open().value();
  auto waker = Waker::open().value();
  ASSERT_TRUE(poller.add(waker->fd(), 1).ok());
  std::atomic<std::uint64_t> published{0};
  auto producer = Worker::start("producer", [&](const StopToken&) {
                    for (std::uint64_t i = 1; i <= kCount; ++i) {
                      published.store(i, std::memory_order_relaxed);  // the waker orders it
                      waker->wake();
                    }
                  }).value();
  // A lost wake-up would hang here, for the test's own watchdog to find.
  while (published.load(std::memory_order_relaxed) < kCount) {
    (void)poller.wait(Duration::max());
    waker->clear();
  }
}

TEST(TimerFdTest, fires_at_its_moment_and_not_before) {
  const sys::SystemClock clock;
  auto poller = Poller::open().value();
  auto timer = TimerFd::open().value();
  ASSERT_TRUE(poller.add(timer.fd(), 5).ok());
  const Instant at = clock.now() + milliseconds(4);
  timer.arm(at);
  timer.arm(at);
  EXPECT_EQ(timer.armed_at(), at);
  ASSERT_EQ(poller.wait(Duration::max()).size(), 1U);
  EXPECT_GE(clock.now(), at);
  timer.clear();
  EXPECT_TRUE(poller.wait(Duration::zero()).empty());
  EXPECT_EQ(timer.armed_at(), Instant::never());
}

TEST(TimerFdTest, past_moments_fire_at_once_and_disarmed_ones_never) {
  const sys::SystemClock clock;
  auto poller = Poller::open().value();
  auto timer = TimerFd::open().value();
  ASSERT_TRUE(poller.add(timer.fd(), 5).ok());
  for (Instant past : {Instant{0}, Instant{-7}, clock.now()}) {
    timer.arm(past);
    EXPECT_EQ(poller.wait(Duration::max()).size(), 1U);
    timer.clear();
  }
  timer.arm(clock.now() + std::chrono::hours(1));
  EXPECT_TRUE(poller.wait(Duration::zero()).empty());
  timer.arm(Instant{1});
  ASSERT_EQ(poller.wait(Duration::max()).size(), 1U);
  timer.disarm();
  EXPECT_TRUE(poller.wait(Duration::zero()).empty());
}

}  // namespace
}  // namespace towpath::run
