#include <chrono>

#include <towpath/run/mutex.h>
#include <towpath/sys/clock.h>

namespace towpath::run {

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
  std::unique_lock<std::mutex> held(mutex.mutex_, std::adopt_lock);
  const auto answer = condition_.wait_for(held, time);
  (void)held.release();
  return answer == std::cv_status::no_timeout;
}

}  // namespace towpath::run
