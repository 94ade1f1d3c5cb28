#include <atomic>

#include <towpath/run/futex.h>
#include <towpath/run/poll_until.h>
#include <towpath/sys/clock.h>

namespace towpath::run {

void nap(Duration time) noexcept {
  const std::atomic<std::uint32_t> nobody_wakes{0};
  (void)futex_wait(nobody_wakes, 0, {.deadline = Deadline::after(sys::SystemClock(), time)});
}

}  // namespace towpath::run
