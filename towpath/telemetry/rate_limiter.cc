#include <algorithm>

#include <towpath/telemetry/rate_limiter.h>

namespace towpath::telemetry {

RateLimiter::RateLimiter(const Clock& clock, Options options) noexcept
    : clock_(&clock), options_(options), full_at_(clock.now().nanoseconds) {
  options_.burst = std::max(options_.burst, 1U);
}

bool RateLimiter::admit() noexcept {
  if (options_.every <= Duration::zero()) return true;
  const Instant now = clock_->now();
  // Each message moves the moment of a full bucket by `every`; with all tokens gone it lies
  // `burst` x `every` ahead.
  const double reach =
      static_cast<double>(options_.every.count()) * static_cast<double>(options_.burst);
  std::int64_t seen = full_at_.load(std::memory_order_relaxed);
  while (true) {
    const Instant next = std::max(Instant{seen}, now) + options_.every;
    if (static_cast<double>((next - now).count()) > reach) {
      suppressed_.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    if (full_at_.compare_exchange_weak(seen, next.nanoseconds, std::memory_order_relaxed))
      return true;
  }
}

std::uint64_t RateLimiter::take_suppressed() noexcept {
  return suppressed_.exchange(0, std::memory_order_relaxed);
}

}  // namespace towpath::telemetry
