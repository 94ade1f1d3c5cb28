#include <towpath/core/check.h>
#include <towpath/core/text.h>
#include <towpath/run/futex.h>
#include <towpath/run/gate.h>

namespace towpath::run {

Gate::~Gate() {
  const std::uint32_t state = state_.load(std::memory_order_acquire);
  TOWPATH_CHECK((state & kCount) == 0, "a gate dies with someone inside");
  TOWPATH_CHECK((state & kEntered) == 0 || (state & kClosed) != 0,
                "a gate that was used dies without having been closed");
}

bool Gate::enter() noexcept {
  std::uint32_t state = state_.load(std::memory_order_relaxed);
  while ((state & kClosed) == 0) {
    TOWPATH_CHECK((state & kCount) != kCount, "a gate is entered a billion times and never left");
    // Acquire: pairs with the release of whoever left before, so what they did is seen inside.
    if (state_.compare_exchange_weak(state, (state + 1) | kEntered, std::memory_order_acquire,
                                     std::memory_order_relaxed))
      return true;
  }
  return false;
}

void Gate::leave() noexcept {
  // Release: pairs with the acquires in wait_until_empty() and is_drained().
  const std::uint32_t before = state_.fetch_sub(1, std::memory_order_release);
  TOWPATH_CHECK((before & kCount) != 0, "a gate is left more often than entered");
  // The owner may have destroyed the gate by now; futex_wake does not touch the word.
  if ((before & kClosed) != 0 && (before & kCount) == 1) futex_wake(state_, kWakeAll);
}

std::optional<Gate::Pass> Gate::try_enter() noexcept {
  if (!enter()) return std::nullopt;
  return Pass(*this);
}

void Gate::close() noexcept {
  // Relaxed: nothing is handed over by closing; the one atomic word decides who still came in.
  state_.fetch_or(kClosed, std::memory_order_relaxed);
}

Status Gate::wait_until_empty(Deadline deadline) {
  while (true) {
    // Acquire: pairs with the release in leave(), so all that was done inside is seen.
    const std::uint32_t state = state_.load(std::memory_order_acquire);
    if ((state & kClosed) == 0)
      return error(Code::not_ready, "waiting for a gate that is open", "close() it first");
    if ((state & kCount) == 0) return {};
    if (futex_wait(state_, state, {.deadline = deadline}) == FutexWait::timed_out)
      return error(Code::timed_out, cat(inside(), " still inside a closed gate at the deadline"));
  }
}

bool Gate::is_closed() const noexcept {
  return (state_.load(std::memory_order_relaxed) & kClosed) != 0;
}

bool Gate::is_drained() const noexcept {
  // Acquire: pairs with the release in leave().
  return (state_.load(std::memory_order_acquire) & (kClosed | kCount)) == kClosed;
}

std::uint32_t Gate::inside() const noexcept {
  return state_.load(std::memory_order_relaxed) & kCount;
}

}  // namespace towpath::run
