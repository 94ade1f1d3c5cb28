#include <algorithm>
#include <chrono>

#include <towpath/run/futex.h>
#include <towpath/run/mutex.h>
#include <towpath/sys/clock.h>

namespace towpath::run {

// futex_wait() compares behind a barrier, so that no unlock() is missed.
void FairMutex::lock() noexcept {
  const std::uint32_t mine = next_.fetch_add(1, std::memory_order_seq_cst);
  for (std::uint32_t now = now_.load(std::memory_order_acquire); now != mine;
       now = now_.load(std::memory_order_acquire))
    (void)futex_wait(now_, now);
}

/// All that wait are woken, since each knows its turn alone: they are few.
void FairMutex::unlock() noexcept {
  const std::uint32_t turn = now_.load(std::memory_order_relaxed) + 1;
  now_.store(turn, std::memory_order_seq_cst);
  if (next_.load(std::memory_order_seq_cst) != turn) (void)futex_wake(now_, kWakeAll);
}

void CondVar::wait(Mutex& mutex) {
  std::unique_lock<std::mutex> held(mutex.mutex_, std::adopt_lock);
  condition_.wait(held);
  (void)held.release();  // still locked, and still the caller's
}

bool CondVar::wait_until(Mutex& mutex, Deadline deadline) {
  if (deadline.is_never()) {
    wait(mutex);
    return true;
  }
  return wait_for(mutex, deadline.remaining(sys::SystemClock()));
}

bool CondVar::wait_for(Mutex& mutex, Duration time) {
  using Steady = std::chrono::steady_clock;
  // A time that goes past the end of the clock would be one that has passed.
  const Steady::time_point now = Steady::now();
  const auto until = now + std::min<Steady::duration>(time, Steady::time_point::max() - now);
  std::unique_lock<std::mutex> held(mutex.mutex_, std::adopt_lock);
  const auto answer = condition_.wait_until(held, until);
  (void)held.release();
  return answer == std::cv_status::no_timeout;
}

}  // namespace towpath::run
