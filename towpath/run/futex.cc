#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <towpath/core/check.h>
#include <towpath/run/futex.h>
#include <towpath/sys/clock.h>

namespace towpath::run {

namespace {

using Word = std::atomic<std::uint32_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 4, "the kernel reads it as a u32");

int operation(int base, FutexScope scope) {
  return scope == FutexScope::private_to_process ? base | FUTEX_PRIVATE_FLAG : base;
}

timespec to_timespec(Duration left) {
  const std::int64_t nanoseconds = std::max<std::int64_t>(left.count(), 0);
  return {.tv_sec = nanoseconds / 1'000'000'000, .tv_nsec = nanoseconds % 1'000'000'000};
}

}  // namespace

FutexWait futex_wait(const Word& word, std::uint32_t expected,
                     const FutexOptions& options) noexcept {
  timespec left{};
  if (!options.deadline.is_never())
    left = to_timespec(options.deadline.remaining(sys::SystemClock()));
  const timespec* const at_most = options.deadline.is_never() ? nullptr : &left;
  const long answer = syscall(SYS_futex, &word, operation(FUTEX_WAIT, options.scope), expected,
                              at_most, nullptr, 0);
  if (answer == 0) return FutexWait::woken;
  switch (errno) {
    case EAGAIN: return FutexWait::changed;
    case ETIMEDOUT: return FutexWait::timed_out;
    case EINTR: return FutexWait::woken;  // a signal; the caller looks again
    default: break;
  }
  check_failed("futex wait", "the word is not mapped or not aligned", __FILE__, __LINE__);
}

std::uint32_t futex_wake(const Word& word, std::uint32_t count, FutexScope scope) noexcept {
  const auto limit = static_cast<int>(std::min<std::uint32_t>(count, INT_MAX));
  const long woken =
      syscall(SYS_futex, &word, operation(FUTEX_WAKE, scope), limit, nullptr, nullptr, 0);
  // A shared word can be unmapped already by a sleeper that saw the change: nobody is left to wake.
  return woken < 0 ? 0 : static_cast<std::uint32_t>(woken);
}

}  // namespace towpath::run
