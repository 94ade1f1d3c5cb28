#include <atomic>
#include <csignal>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <pthread.h>

#include <towpath/run/eventually.h>
#include <towpath/run/poller.h>
#include <towpath/run/worker.h>
#include <towpath/sys/clock.h>

namespace towpath::run {
namespace {

TEST(WorkerTest, destructor_asks_for_the_end_and_waits) {
  std::atomic<bool> ended{false};
  {
    auto worker = Worker::start("loop", [&](const StopToken& stop) {
                    while (!stop.stop_requested()) sched_yield();
                    ended = true;
                  }).value();
  }
  EXPECT_TRUE(ended);
}

TEST(WorkerTest, stop_wakes_who_sleeps_on_the_token) {
  auto worker = Worker::start("sleeper", [](const StopToken& stop) {
                  EXPECT_TRUE(stop.wait_until(Deadline::never()));
                }).value();
  worker.request_stop();
  worker.request_stop();
  worker.join();
  worker.join();
}

TEST(WorkerTest, waiting_on_the_token_ends_at_the_deadline) {
  std::optional<bool> stopped;
  auto worker = Worker::start("periodic", [&](const StopToken& stop) {
                  const sys::SystemClock clock;
                  const auto tick = Deadline::after(clock, std::chrono::milliseconds(1));
                  stopped = stop.wait_until(tick);
                  EXPECT_TRUE(tick.expired(clock));
                }).value();
  worker.join();
  EXPECT_EQ(stopped, false);
}

TEST(WorkerTest, stop_wakes_a_poller_that_watches_the_token) {
  auto worker = Worker::start("poller", [](const StopToken& stop) {
                  auto poller = Poller::open().value();
                  ASSERT_TRUE(poller.add(stop.fd(), 1).ok());
                  // Waits once whatever the flag says: the descriptor itself must wake it.
                  do {
                    (void)poller.wait(Duration::max());
                  } while (!stop.stop_requested());
                }).value();
  worker.request_stop();
}

TEST(WorkerTest, thread_carries_its_name_cut_to_what_the_kernel_keeps) {
  std::string name;
  auto worker = Worker::start("towpath-progress-thread", [&](const StopToken&) {
                  char buffer[16] = {};
                  pthread_getname_np(pthread_self(), buffer, sizeof buffer);
                  name = buffer;
                }).value();
  worker.join();
  EXPECT_EQ(name, "towpath-progres");
}

TEST(WorkerTest, worker_leaves_signals_to_the_users_threads) {
  bool blocks_usr1 = false;
  bool blocks_segv = true;
  auto worker = Worker::start("masked", [&](const StopToken&) {
                  sigset_t mask;
                  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
                  blocks_usr1 = sigismember(&mask, SIGUSR1) == 1;
                  blocks_segv = sigismember(&mask, SIGSEGV) == 1;
                }).value();
  worker.join();
  EXPECT_TRUE(blocks_usr1);
  EXPECT_FALSE(blocks_segv);
  sigset_t mine;
  pthread_sigmask(SIG_BLOCK, nullptr, &mine);
  EXPECT_EQ(sigismember(&mine, SIGUSR1), 0) << "the starter's mask is as before";
}

TEST(WorkerTest, assigning_over_a_running_worker_ends_it_first) {
  std::atomic<int> ended{0};
  const auto loop = [&](const StopToken& stop) {
    (void)stop.wait_until(Deadline::never());
    ++ended;
  };
  auto worker = Worker::start("first", loop).value();
  worker = Worker::start("second", loop).value();
  EXPECT_EQ(ended, 1);
  Worker moved = std::move(worker);
  EXPECT_EQ(ended, 1);
}

TEST(EventuallyTest, gives_up_on_what_never_comes_true) {
  int looks = 0;
  EXPECT_FALSE(eventually([&] { return ++looks < 0; }, std::chrono::seconds(0)));
  EXPECT_GE(looks, 1);
}

}  // namespace
}  // namespace towpath::run
