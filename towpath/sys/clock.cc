#include <time.h>

#include <towpath/sys/clock.h>

namespace towpath::sys {
namespace {

std::int64_t read_clock(clockid_t id) noexcept {
  timespec time{};
  (void)::clock_gettime(id, &time);  // cannot fail for these two clocks
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

Instant SystemClock::now() const noexcept { return {read_clock(CLOCK_BOOTTIME)}; }

Duration SystemClock::since_epoch() const noexcept { return Duration(read_clock(CLOCK_REALTIME)); }

const SystemClock& system_clock() noexcept {
  static const SystemClock kClock;
  return kClock;
}

}  // namespace towpath::sys
