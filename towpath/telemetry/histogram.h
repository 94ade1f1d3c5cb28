// Histogram: how a quantity (nanoseconds, bytes) is spread, in a fixed 15 KiB.
//
// Log-linear: values below 32 have a bucket each, and every power of two above is cut into 32 equal
// buckets. A percentile is therefore never below the true one, and above it by less than 1/32
// (3.2 %). The smallest and largest value, count and sum are exact.
//
// Not a list of samples, and no window: it remembers since it was made.
// Thread: any. A summary taken while others record is of some moment in between: its percentiles
// agree with its count, but sum, min and max may be a few records ahead.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace towpath::telemetry {

/// Units are those of the recorded values. All zero when nothing was recorded.
struct HistogramSummary {
  std::uint64_t count = 0;
  std::uint64_t sum = 0;
  std::uint64_t min = 0;
  std::uint64_t max = 0;
  std::uint64_t p50 = 0;
  std::uint64_t p90 = 0;
  std::uint64_t p99 = 0;
  std::uint64_t p999 = 0;

  double mean() const noexcept {
    return count == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(count);
  }
  friend bool operator==(const HistogramSummary&, const HistogramSummary&) = default;
};

class Histogram {
 public:
  static constexpr unsigned kPrecisionBits = 5;
  static constexpr std::uint64_t kBucketsPerOctave = 1ULL << kPrecisionBits;
  static constexpr std::size_t kBuckets = kBucketsPerOctave * (65 - kPrecisionBits);

  /// Cost: two atomic additions, and two loads while min and max stand. No lock, no allocation.
  void record(std::uint64_t value) noexcept;
  /// In nanoseconds. A negative time counts as 0.
  void record(std::chrono::nanoseconds time) noexcept {
    record(time.count() < 0 ? 0U : static_cast<std::uint64_t>(time.count()));
  }

  /// The value that `percent` of the records do not exceed: percentile(99.9). Clamped to 0..100;
  /// 0 gives the bucket of the smallest. 0 when nothing was recorded.
  std::uint64_t percentile(double percent) const noexcept;
  HistogramSummary summary() const noexcept;

  /// Adds what `other` has recorded; `other` stays as it is.
  void merge(const Histogram& other) noexcept;

  /// Which bucket a value falls into, and the largest value of a bucket.
  static std::size_t bucket_of(std::uint64_t value) noexcept;
  static std::uint64_t largest_of(std::size_t bucket) noexcept;

 private:
  using Counts = std::array<std::uint64_t, kBuckets>;
  struct Copy {
    Counts counts;
    std::uint64_t total = 0;
    std::uint64_t max = 0;
    std::uint64_t percentile(double percent) const noexcept;
  };
  Copy copy() const noexcept;
  void widen(std::uint64_t low, std::uint64_t high) noexcept;

  // All relaxed, without partners: a histogram orders nothing.
  std::array<std::atomic<std::uint64_t>, kBuckets> buckets_{};
  std::atomic<std::uint64_t> sum_{0};
  std::atomic<std::uint64_t> min_{UINT64_MAX};
  std::atomic<std::uint64_t> max_{0};
};

}  // namespace towpath::telemetry
