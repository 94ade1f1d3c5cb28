#include <towpath/run/deadline.h>

namespace towpath::run {

Duration Deadline::remaining(const Clock& clock) const noexcept {
  if (is_never()) return Duration::max();
  const Instant now = clock.now();
  if (now >= at_) return Duration::zero();
  std::int64_t left = 0;
  if (__builtin_sub_overflow(at_.nanoseconds, now.nanoseconds, &left)) return Duration::max();
  return Duration(left);
}

}  // namespace towpath::run
