#include <algorithm>
#include <numeric>

#include <towpath/core/text.h>
#include <towpath/telemetry/bucket_histogram.h>

namespace towpath::telemetry {
namespace {

// One writer at a time: cheaper than an atomic addition.
void add(std::atomic<std::uint64_t>& to, std::uint64_t amount) noexcept {
  to.store(to.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

}  // namespace

BucketBounds::BucketBounds() noexcept {
  constexpr std::uint64_t kFirst = 1'000;
  constexpr std::uint64_t kLast = 10'000'000'000;
  for (std::uint64_t decade = kFirst; decade < kLast; decade *= 10) {
    for (const std::uint64_t step : {1U, 2U, 5U}) bounds_[count_++] = decade * step;
  }
  bounds_[count_++] = kLast;
}

Result<BucketBounds> BucketBounds::of(std::span<const std::uint64_t> bounds) {
  if (bounds.empty() || bounds.size() > kMost)
    return error(Code::invalid_argument, cat(bounds.size(), " bounds of a histogram"),
                 cat("give 1 to ", kMost));
  for (std::size_t i = 1; i < bounds.size(); ++i) {
    if (bounds[i] <= bounds[i - 1])
      return error(Code::invalid_argument,
                   cat("bound ", bounds[i], " of a histogram follows ", bounds[i - 1]),
                   "list the bounds in ascending order");
  }
  BucketBounds made;
  made.bounds_.fill(0);
  std::ranges::copy(bounds, made.bounds_.begin());
  made.count_ = bounds.size();
  return made;
}

std::uint64_t BucketCounts::total() const noexcept {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

void BucketHistogram::record(std::uint64_t value) noexcept {
  const auto bounds = bounds_.all();
  const auto bucket = std::ranges::lower_bound(bounds, value) - bounds.begin();
  add(counts_[static_cast<std::size_t>(bucket)], 1);
  add(sum_, value);
}

BucketCounts BucketHistogram::counts() const {
  const auto bounds = bounds_.all();
  BucketCounts now{.bounds = {bounds.begin(), bounds.end()},
                   .sum = sum_.load(std::memory_order_relaxed)};
  for (std::size_t i = 0; i <= bounds.size(); ++i)
    now.counts.push_back(counts_[i].load(std::memory_order_relaxed));
  return now;
}

}  // namespace towpath::telemetry
