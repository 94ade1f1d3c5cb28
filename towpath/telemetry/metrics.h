// Metrics: owns the named counters, gauges and histograms of one composition, and lists them.
//
// Asking for one takes a lock and may allocate: do it when an object is made, keep the reference,
// and only add on the data path. References stay valid for the life of the Metrics. Exporters read
// snapshot(); none lives here.
// Thread: any.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <towpath/core/result.h>

namespace towpath::telemetry {

class FlightRecorder;

// Counter and Gauge: one 64-bit number that any thread may change without waiting.
//
// Not a synchronisation: seeing a count says nothing about the memory that was counted. Every order
// here is relaxed, and has no partner, for that reason.
// Thread: any.
/// Only grows. Wraps after 2^64.
class Counter {
 public:
  void add(std::uint64_t amount = 1) noexcept {
    value_.fetch_add(amount, std::memory_order_relaxed);
  }
  /// As add(), cheaper, where no two threads add at the same time.
  void add_alone(std::uint64_t amount = 1) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  std::uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// Goes up and down: blocks in use, transfers in flight.
class Gauge {
 public:
  void set(std::int64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }
  void add(std::int64_t amount = 1) noexcept {
    value_.fetch_add(amount, std::memory_order_relaxed);
  }
  void subtract(std::int64_t amount = 1) noexcept {
    value_.fetch_sub(amount, std::memory_order_relaxed);
  }
  /// As add(), cheaper, where no two threads change it at the same time. `amount` may be negative.
  void add_alone(std::int64_t amount) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  std::int64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_{0};
};

// Histogram: how a quantity (nanoseconds, bytes) is spread, in a fixed 15 KiB.
//
// Log-linear: values below 32 have a bucket each, and every power of two above is cut into 32 equal
// buckets. A percentile is therefore never below the true one, and above it by less than 1/32
// (3.2 %). The smallest and largest value, count and sum are exact.
//
// Not a list of samples, and no window: it remembers since it was made.
// Thread: any. A summary taken while others record is of some moment in between: its percentiles
// agree with its count, but sum, min and max may be a few records ahead.
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

// BucketHistogram: how many values were at most so large, for a few bounds chosen beforehand.
//
// Small (under 300 bytes) where Histogram takes 15 KiB, so every peer and operation can have one,
// and what a scraper like Prometheus wants: counts below fixed bounds. Percentiles that are read
// off it are as coarse as its bounds.
// Thread: any reads; one at a time records, and readers may see its sum a few values apart from its
// counts.
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

struct Label {
  std::string name;
  std::string value;

  friend auto operator<=>(const Label&, const Label&) = default;
};
using Labels = std::vector<Label>;

/// A name from outside, any bytes, as the value of a label: printable and bounded, for exporters
/// take UTF-8 only; the same in all metrics, so that they can be joined by it.
std::string name_label(std::string_view name);

/// One metric as it stood at a moment.
struct Metric {
  std::string name;
  Labels labels;  ///< ordered by name
  /// A counter's, a gauge's, a histogram's, a bucket histogram's.
  std::variant<std::uint64_t, std::int64_t, HistogramSummary, BucketCounts> value;

  friend bool operator==(const Metric&, const Metric&) = default;
};

/// `transfers_done{backend="shm",peer="decode-0"}`.
std::string to_string(std::string_view name, const Labels& labels);

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// The metric with this name and these labels, in whatever order; made when there is none.
  /// Kinds do not meet: a counter and a histogram of one name are two metrics.
  Counter& counter(std::string_view name, Labels labels = {});
  Gauge& gauge(std::string_view name, Labels labels = {});
  Histogram& histogram(std::string_view name, Labels labels = {});
  /// `bounds` count when it is made.
  BucketHistogram& bucket_histogram(std::string_view name, Labels labels = {},
                                    const BucketBounds& bounds = BucketBounds());

  /// All metrics, ordered by name, then labels, then kind.
  std::vector<Metric> snapshot() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What a cache's figures go to; outlives the cache. cache_meter.h has their names.
struct CacheMeterParts {
  Metrics* metrics = nullptr;  ///< null: nothing is counted
  std::string agent;           ///< its name, for the label: whose cache it is
  FlightRecorder* flight = nullptr;
};

}  // namespace towpath::telemetry
