#include <towpath/backends/loopback/record.h>

namespace towpath::backends::loopback {

bool Record::enter() noexcept {
  // Acquire pairs with nothing but keeps the touching behind it; close() sees the count.
  if ((state_.fetch_add(1, std::memory_order_acquire) & kClosed) == 0) return true;
  leave();
  return false;
}

void Record::leave() noexcept {
  // Release pairs with the acquire in close(): the owner sees the bytes before it frees them.
  if (state_.fetch_sub(1, std::memory_order_release) == kClosed + 1) state_.notify_all();
}

void Record::close() noexcept {
  std::uint32_t state = state_.fetch_or(kClosed, std::memory_order_acq_rel) | kClosed;
  while (state != kClosed) {
    state_.wait(state, std::memory_order_acquire);
    state = state_.load(std::memory_order_acquire);  // pairs with the release in leave()
  }
}

}  // namespace towpath::backends::loopback
