#include <atomic>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>

#include <towpath/run/mutex.h>
#include <towpath/run/worker.h>
#include <towpath/sys/clock.h>

namespace towpath::run {
namespace {

class Box {
 public:
  void put(int value) {
    const MutexLock lock(mutex_);
    values_.push_back(value);
    changed_.wake_all();
  }
  int take() {
    const MutexLock lock(mutex_);
    while (values_.empty()) changed_.wait(mutex_);
    const int value = values_.back();
    values_.pop_back();
    return value;
  }
  /// One wait; whether it was woken.
  bool wait_once(Duration time) {
    const MutexLock lock(mutex_);
    waits_.store(true);
    return changed_.wait_for(mutex_, time);
  }
  /// Once somebody waits, and has let go of the mutex.
  void wake_waiter() {
    while (!waits_.load()) sched_yield();
    const MutexLock lock(mutex_);
    changed_.wake_all();
  }
  bool wait_for_one(Deadline deadline) {
    const MutexLock lock(mutex_);
    while (values_.empty()) {
      if (!changed_.wait_until(mutex_, deadline)) return !values_.empty();
    }
    return true;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::atomic<bool> waits_{false};
  std::vector<int> values_ TOWPATH_GUARDED_BY(mutex_);
};

TEST(MutexTest, condition_hands_values_from_thread_to_thread) {
  Box box;
  auto giver = Worker::start("giver", [&](const StopToken&) {
                 for (int i = 0; i < 1000; ++i) box.put(1);
               }).value();
  int sum = 0;
  for (int i = 0; i < 1000; ++i) sum += box.take();
  EXPECT_EQ(sum, 1000);
}

TEST(MutexTest, waiting_ends_at_the_deadline) {
  const sys::SystemClock clock;
  Box box;
  const auto deadline = Deadline::after(clock, std::chrono::milliseconds(3));
  EXPECT_FALSE(box.wait_for_one(deadline));
  EXPECT_TRUE(deadline.expired(clock));
  box.put(1);
  EXPECT_TRUE(box.wait_for_one(Deadline::now()));
  EXPECT_TRUE(box.wait_for_one(Deadline::never()));
}

// The end of a time that is added to the clock's would lie before its begin.
TEST(MutexTest, a_time_that_no_clock_comes_to_does_not_pass) {
  for (const Duration time : {Duration::max(), Duration::max() - Duration(1)}) {
    Box box;
    const auto other = Worker::start("other", [&](const StopToken&) { box.wake_waiter(); }).value();
    EXPECT_TRUE(box.wait_once(time)) << time.count();
  }
}

bool try_once(Mutex& mutex) {
  if (!mutex.try_lock()) return false;
  mutex.unlock();
  return true;
}

TEST(MutexTest, try_lock_fails_while_another_thread_holds_it) {
  Mutex mutex;
  bool other_got_it = true;
  {
    const MutexLock lock(mutex);
    auto other =
        Worker::start("other", [&](const StopToken&) { other_got_it = try_once(mutex); }).value();
  }
  EXPECT_FALSE(other_got_it);
  EXPECT_TRUE(try_once(mutex));
}

TEST(FairMutexTest, one_at_a_time_has_it) {
  constexpr int kTimes = 20'000;
  FairMutex mutex;
  int count = 0;
  {
    std::vector<Worker> threads;
    for (int i = 0; i < 4; ++i)
      threads.push_back(Worker::start("counter", [&](const StopToken&) {
                          for (int time = 0; time < kTimes; ++time) {
                            const FairLock lock(mutex);
                            ++count;
                          }
                        }).value());
    for (Worker& thread : threads) thread.join();
  }
  EXPECT_EQ(count, 4 * kTimes);
}

// At most what it has, and what it had asked for before. It may be anywhere between the count and
// the asking, hence not every time.
TEST(FairMutexTest, a_thread_that_takes_it_again_and_again_lets_the_others_in) {
  constexpr int kTimes = 200;
  FairMutex mutex;
  std::atomic<std::uint64_t> had{0};
  const auto greedy = Worker::start("greedy", [&](const StopToken& stop) {
                        while (!stop.stop_requested()) {
                          const FairLock lock(mutex);
                          for (int i = 0; i < 1000; ++i) ++had;
                        }
                      }).value();
  int soon = 0;
  for (int time = 0; time < kTimes; ++time) {
    std::uint64_t before = had;
    while (had == before) sched_yield();  // it has it now
    before = had;
    const FairLock lock(mutex);
    soon += had - before <= 2000 ? 1 : 0;
  }
  EXPECT_GT(soon, kTimes * 9 / 10);
}

}  // namespace
}  // namespace towpath::run
