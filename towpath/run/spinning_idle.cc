#include <algorithm>

#include <towpath/run/spinning_idle.h>

namespace towpath::run {

void SpinningIdleStrategy::learn(Duration waited) noexcept {
  if (waited <= Duration(0)) return;
  if (waited >= kSoon) return looks_.store(0, std::memory_order_relaxed);
  if (const std::uint32_t distrust = distrust_.load(std::memory_order_relaxed); distrust > 0)
    return distrust_.store(distrust - 1, std::memory_order_relaxed);
  looks_.store(std::clamp(2 * looks(), kMostLooks / 16, kMostLooks), std::memory_order_relaxed);
}

}  // namespace towpath::run
