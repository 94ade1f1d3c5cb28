#include <vector>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace towpath::run
