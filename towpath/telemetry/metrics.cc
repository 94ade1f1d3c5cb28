#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <tuple>

#include <towpath/core/format.h>
#include <towpath/telemetry/metrics.h>

namespace towpath::telemetry {
namespace {

// One writer at a time: cheaper than an atomic addition.
void add(std::atomic<std::uint64_t>& to, std::uint64_t amount) noexcept {
  to.store(to.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

using Key = std::pair<std::string, Labels>;

// A cache line of its own, so that two threads that count different things do not disturb each
// other.
template <typename T>
struct alignas(64) Cell {
  template <typename... Made>
  explicit Cell(const Made&... made) : metric(made...) {}
  T metric;
};
template <typename T>
using Cells = std::map<Key, std::unique_ptr<Cell<T>>>;

template <typename T, typename... Made>
T& find_or_make(Cells<T>& cells, std::string_view name, Labels labels, const Made&... made) {
  std::ranges::sort(labels);
  auto& cell = cells[Key(std::string(name), std::move(labels))];
  if (cell == nullptr) cell = std::make_unique<Cell<T>>(made...);
  return cell->metric;
}

std::uint64_t value_of(const Counter& counter) { return counter.value(); }
std::int64_t value_of(const Gauge& gauge) { return gauge.value(); }
HistogramSummary value_of(const Histogram& histogram) { return histogram.summary(); }
BucketCounts value_of(const BucketHistogram& histogram) { return histogram.counts(); }

template <typename T>
void list(const Cells<T>& cells, std::vector<Metric>& out) {
  for (const auto& [key, cell] : cells)
    out.push_back({.name = key.first, .labels = key.second, .value = value_of(cell->metric)});
}

}  // namespace

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

struct Metrics::State {
  // Plain std::mutex: the annotated one lives in run/, which stands below this module.
  std::mutex mutex;
  Cells<Counter> counters;
  Cells<Gauge> gauges;
  Cells<Histogram> histograms;
  Cells<BucketHistogram> bucket_histograms;
};

Metrics::Metrics() : state_(std::make_unique<State>()) {}
Metrics::~Metrics() = default;

Counter& Metrics::counter(std::string_view name, Labels labels) {
  const std::lock_guard lock(state_->mutex);
  return find_or_make(state_->counters, name, std::move(labels));
}

Gauge& Metrics::gauge(std::string_view name, Labels labels) {
  const std::lock_guard lock(state_->mutex);
  return find_or_make(state_->gauges, name, std::move(labels));
}

Histogram& Metrics::histogram(std::string_view name, Labels labels) {
  const std::lock_guard lock(state_->mutex);
  return find_or_make(state_->histograms, name, std::move(labels));
}

BucketHistogram& Metrics::bucket_histogram(std::string_view name, Labels labels,
                                           const BucketBounds& bounds) {
  const std::lock_guard lock(state_->mutex);
  return find_or_make(state_->bucket_histograms, name, std::move(labels), bounds);
}

std::vector<Metric> Metrics::snapshot() const {
  std::vector<Metric> out;
  {
    const std::lock_guard lock(state_->mutex);
    list(state_->counters, out);
    list(state_->gauges, out);
    list(state_->histograms, out);
    list(state_->bucket_histograms, out);
  }
  std::ranges::sort(out, {}, [](const Metric& metric) {
    return std::make_tuple(std::cref(metric.name), std::cref(metric.labels), metric.value.index());
  });
  return out;
}

std::string name_label(std::string_view name) {
  constexpr std::size_t kMost = 128;
  return printable(name, kMost);
}

std::string to_string(std::string_view name, const Labels& labels) {
  std::string text(name);
  std::string_view separator = "{";
  for (const Label& label : labels) {
    text.append(cat(separator, label.name, "=\"", printable(label.value), '"'));
    separator = ",";
  }
  if (!labels.empty()) text.push_back('}');
  return text;
}

}  // namespace towpath::telemetry
