#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <tuple>

#include <towpath/core/text.h>
#include <towpath/telemetry/metrics.h>

namespace towpath::telemetry {

namespace {

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
