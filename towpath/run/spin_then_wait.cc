#include <towpath/run/spin_then_wait.h>

namespace towpath::run {

std::optional<std::uint32_t> spin_then_wait(const std::atomic<std::uint32_t>& word,
                                            std::uint32_t old, const SpinOptions& options) {
  for (std::uint32_t spin = 0; spin < options.spins; ++spin) {
    // Acquire, here and below: pairs with the release of whoever changes the word.
    if (const auto value = word.load(std::memory_order_acquire); value != old) return value;
    cpu_relax();
  }
  while (true) {
    const auto answer =
        futex_wait(word, old, {.deadline = options.deadline, .scope = options.scope});
    if (const auto value = word.load(std::memory_order_acquire); value != old) return value;
    if (answer == FutexWait::timed_out) return std::nullopt;
  }
}

}  // namespace towpath::run
