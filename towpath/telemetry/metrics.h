// Metrics: owns the named counters, gauges and histograms of one composition, and lists them.
//
// Asking for one takes a lock and may allocate: do it when an object is made, keep the reference,
// and only add on the data path. References stay valid for the life of the Metrics. Exporters read
// snapshot(); none lives here.
// Thread: any.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <towpath/telemetry/bucket_histogram.h>
#include <towpath/telemetry/counter.h>
#include <towpath/telemetry/histogram.h>

namespace towpath::telemetry {

struct Label {
  std::string name;
  std::string value;

  friend auto operator<=>(const Label&, const Label&) = default;
};
using Labels = std::vector<Label>;

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

}  // namespace towpath::telemetry
