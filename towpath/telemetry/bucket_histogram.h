// BucketHistogram: how many values were at most so large, for a few bounds chosen beforehand.
//
// Small (under 300 bytes) where Histogram takes 15 KiB, so every peer and operation can have one,
// and what a scraper like Prometheus wants: counts below fixed bounds. Percentiles that are read
// off it are as coarse as its bounds.
// Thread: any reads; one at a time records, and readers may see its sum a few values apart from its
// counts.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include <towpath/core/result.h>

namespace towpath::telemetry {

/// Upper bounds, each included in its bucket; values above the last have a bucket of their own.
class BucketBounds {
 public:
  static constexpr std::size_t kMost = 32;

  /// Nanoseconds from 1 us to 10 s, in steps of 1, 2, 5.
  BucketBounds() noexcept;
  /// Errors: invalid_argument (none, more than kMost, or not ascending).
  static Result<BucketBounds> of(std::span<const std::uint64_t> bounds);

  std::span<const std::uint64_t> all() const noexcept { return {bounds_.data(), count_}; }
  friend bool operator==(const BucketBounds&, const BucketBounds&) = default;

 private:
  std::array<std::uint64_t, kMost> bounds_{};
  std::size_t count_ = 0;
};

/// One histogram as it stood at a moment. `counts` has one more entry than `bounds`.
struct BucketCounts {
  std::vector<std::uint64_t> bounds;
  std::vector<std::uint64_t> counts;  ///< of each bucket by itself
  std::uint64_t sum = 0;

  std::uint64_t total() const noexcept;
  friend bool operator==(const BucketCounts&, const BucketCounts&) = default;
};

class BucketHistogram {
 public:
  explicit BucketHistogram(const BucketBounds& bounds = BucketBounds()) noexcept
      : bounds_(bounds) {}

  /// Cost: a search among the bounds, two loads and two stores. No lock, no allocation.
  void record(std::uint64_t value) noexcept;
  /// In nanoseconds. A negative time counts as 0.
  void record(std::chrono::nanoseconds time) noexcept {
    record(time.count() < 0 ? 0U : static_cast<std::uint64_t>(time.count()));
  }
  BucketCounts counts() const;

 private:
  const BucketBounds bounds_;
  // All relaxed, without partners: a histogram orders nothing.
  std::array<std::atomic<std::uint64_t>, BucketBounds::kMost + 1> counts_{};
  std::atomic<std::uint64_t> sum_{0};
};

}  // namespace towpath::telemetry
