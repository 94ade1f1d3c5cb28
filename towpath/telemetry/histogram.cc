#include <algorithm>
#include <bit>
#include <cmath>

#include <towpath/telemetry/histogram.h>

namespace towpath::telemetry {

namespace {
constexpr auto kRelaxed = std::memory_order_relaxed;
}

std::size_t Histogram::bucket_of(std::uint64_t value) noexcept {
  if (value < kBucketsPerOctave) return static_cast<std::size_t>(value);
  const auto octave = static_cast<unsigned>(std::bit_width(value)) - 1;  // >= kPrecisionBits
  const unsigned shift = octave - kPrecisionBits;
  const std::uint64_t within = (value >> shift) - kBucketsPerOctave;
  return static_cast<std::size_t>(kBucketsPerOctave * (shift + 1) + within);
}

std::uint64_t Histogram::largest_of(std::size_t bucket) noexcept {
  if (bucket < kBucketsPerOctave) return bucket;
  const auto shift = static_cast<unsigned>(bucket / kBucketsPerOctave - 1);
  const std::uint64_t within = bucket % kBucketsPerOctave;
  // The bucket's first value, plus its width, less one; for the last bucket this is 2^64 - 1.
  return ((kBucketsPerOctave + within) << shift) + ((1ULL << shift) - 1);
}

void Histogram::record(std::uint64_t value) noexcept {
  buckets_[bucket_of(value)].fetch_add(1, kRelaxed);
  sum_.fetch_add(value, kRelaxed);
  widen(value, value);
}

void Histogram::widen(std::uint64_t low, std::uint64_t high) noexcept {
  for (auto seen = min_.load(kRelaxed); low < seen;) {
    if (min_.compare_exchange_weak(seen, low, kRelaxed)) break;
  }
  for (auto seen = max_.load(kRelaxed); high > seen;) {
    if (max_.compare_exchange_weak(seen, high, kRelaxed)) break;
  }
}

Histogram::Copy Histogram::copy() const noexcept {
  Copy copy;
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    copy.counts[bucket] = buckets_[bucket].load(kRelaxed);
    copy.total += copy.counts[bucket];
  }
  copy.max = max_.load(kRelaxed);
  return copy;
}

std::uint64_t Histogram::Copy::percentile(double percent) const noexcept {
  if (total == 0) return 0;
  const double fraction = std::clamp(std::isnan(percent) ? 0.0 : percent, 0.0, 100.0) / 100.0;
  const double wanted = std::ceil(fraction * static_cast<double>(total));
  // Compared as doubles: with more than 2^53 records the rank is rounded, never out of range.
  const double rank = std::clamp(wanted, 1.0, static_cast<double>(total));
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    seen += counts[bucket];
    if (counts[bucket] != 0 && static_cast<double>(seen) >= rank)
      return std::min(largest_of(bucket), max);
  }
  return max;
}

std::uint64_t Histogram::percentile(double percent) const noexcept {
  return copy().percentile(percent);
}

HistogramSummary Histogram::summary() const noexcept {
  const Copy now = copy();
  if (now.total == 0) return {};
  return {.count = now.total,
          .sum = sum_.load(kRelaxed),
          .min = min_.load(kRelaxed),
          .max = now.max,
          .p50 = now.percentile(50),
          .p90 = now.percentile(90),
          .p99 = now.percentile(99),
          .p999 = now.percentile(99.9)};
}

void Histogram::merge(const Histogram& other) noexcept {
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    const auto count = other.buckets_[bucket].load(kRelaxed);
    if (count != 0) buckets_[bucket].fetch_add(count, kRelaxed);
  }
  sum_.fetch_add(other.sum_.load(kRelaxed), kRelaxed);
  widen(other.min_.load(kRelaxed), other.max_.load(kRelaxed));
}

}  // namespace towpath::telemetry
