#include <algorithm>
#include <exception>
#include <limits>

#include <fnmatch.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/standard/nixl_metrics.h>
#include <towpath/standard/telemetry.h>

namespace towpath::standard {
namespace {

using ::prometheus::ClientMetric;
using ::prometheus::MetricFamily;
using ::prometheus::MetricType;
using telemetry::BucketCounts;
using telemetry::HistogramSummary;
using telemetry::Metric;

// One scraper, seldom; and who says nothing on the line must not keep him out for long.
constexpr const char* kThreads = "4";
constexpr const char* kRequestTimeoutMs = "1000";

// In the words of the server behind it.
std::vector<std::string> server_options(const PrometheusOptions& options) {
  return {"listening_ports",    cat(options.address, ":", options.port),
          "num_threads",        kThreads,
          "request_timeout_ms", kRequestTimeoutMs};
}

// How what is recorded in nanoseconds is reported.
struct TimeUnit {
  const char* ending;
  double nanoseconds;
};
constexpr TimeUnit kSeconds{"_seconds", 1e9};  // Prometheus wants base units
constexpr TimeUnit kNixlTimes{"_us", 1e3};

struct Unit {
  std::string name;
  double divisor = 1;
};
Unit unit_of(const std::string& name, const TimeUnit& times) {
  constexpr std::string_view kOurs = "_nanoseconds";
  if (!name.ends_with(kOurs)) return {name};
  return {name.substr(0, name.size() - kOurs.size()) + times.ending, times.nanoseconds};
}

double scaled(std::uint64_t value, double divisor) { return static_cast<double>(value) / divisor; }

MetricType type_of(const Metric& metric) {
  switch (metric.value.index()) {
    case 0: return MetricType::Counter;
    case 1: return MetricType::Gauge;
    case 2: return MetricType::Summary;
    default: return MetricType::Histogram;
  }
}

void fill(ClientMetric& out, std::uint64_t count, double) {
  out.counter.value = static_cast<double>(count);
}
void fill(ClientMetric& out, std::int64_t level, double) {
  out.gauge.value = static_cast<double>(level);
}
void fill(ClientMetric& out, const HistogramSummary& summary, double divisor) {
  out.summary.sample_count = summary.count;
  out.summary.sample_sum = scaled(summary.sum, divisor);
  out.summary.quantile = {{0.5, scaled(summary.p50, divisor)},
                          {0.9, scaled(summary.p90, divisor)},
                          {0.99, scaled(summary.p99, divisor)},
                          {0.999, scaled(summary.p999, divisor)}};
}
void fill(ClientMetric& out, const BucketCounts& counts, double divisor) {
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < counts.counts.size(); ++i) {
    below += counts.counts[i];
    const double bound = i < counts.bounds.size() ? scaled(counts.bounds[i], divisor)
                                                  : std::numeric_limits<double>::infinity();
    out.histogram.bucket.push_back({below, bound});
  }
  out.histogram.sample_count = below;
  out.histogram.sample_sum = scaled(counts.sum, divisor);
}

// Metrics of one name stand together in a snapshot, by kind within their labels: a name that is
// used for two kinds becomes two families.
std::vector<MetricFamily> families_of(const std::vector<Metric>& metrics, const TimeUnit& times) {
  std::vector<MetricFamily> families;
  for (const Metric& metric : metrics) {
    const Unit unit = unit_of(metric.name, times);
    const MetricType type = type_of(metric);
    if (families.empty() || families.back().name != unit.name || families.back().type != type)
      families.push_back({.name = unit.name, .help = "", .type = type});
    ClientMetric out;
    for (const telemetry::Label& label : metric.labels)
      out.label.push_back({label.name, label.value});
    std::visit([&](const auto& value) { fill(out, value, unit.divisor); }, metric.value);
    families.back().metric.push_back(std::move(out));
  }
  return families;
}

std::string hostname() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : "unknown";
}

/// By its name, or by that without the "_total" of counters, which NIXL's patterns lack.
bool is_enabled(const std::vector<std::string>& patterns, std::string_view name) {
  constexpr std::string_view kTotal = "_total";
  const auto matches = [&](const std::string& text) {
    return std::ranges::any_of(patterns, [&](const std::string& pattern) {
      return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
    });
  };
  if (patterns.empty() || matches(std::string(name))) return true;
  if (!name.ends_with(kTotal)) return false;
  name.remove_suffix(kTotal.size());
  return matches(std::string(name));
}

class Source final : public ::prometheus::Collectable {
 public:
  Source(const telemetry::Metrics& metrics, const PrometheusOptions& options)
      : metrics_(metrics),
        nixl_names_(options.nixl_names),
        enabled_(options.enabled),
        hostname_(hostname()) {}

  std::vector<MetricFamily> Collect() const override {
    const std::vector<Metric> ours = metrics_.snapshot();
    std::vector<MetricFamily> all = families_of(ours, kSeconds);
    if (nixl_names_) {
      for (MetricFamily& family : families_of(nixl_metrics(ours, hostname_), kNixlTimes))
        all.push_back(std::move(family));
    }
    std::erase_if(all, [&](const auto& family) { return !is_enabled(enabled_, family.name); });
    return all;
  }

 private:
  const telemetry::Metrics& metrics_;
  const bool nixl_names_;
  const std::vector<std::string> enabled_;
  const std::string hostname_;
};

class Endpoint final : public PrometheusEndpoint {
 public:
  Endpoint(const telemetry::Metrics& metrics, const PrometheusOptions& options)
      : address_(options.address),
        source_(std::make_shared<Source>(metrics, options)),
        exposer_(server_options(options)) {
    exposer_.RegisterCollectable(source_);
  }

  std::uint16_t port() const override {
    const std::vector<int> ports = exposer_.GetListeningPorts();
    return ports.empty() ? std::uint16_t{0} : static_cast<std::uint16_t>(ports.front());
  }
  std::string url() const override { return cat("http://", address_, ":", port(), "/metrics"); }

 private:
  const std::string address_;
  const std::shared_ptr<Source> source_;
  ::prometheus::Exposer exposer_;  // dies first: its threads read the source
};

}  // namespace

Result<std::unique_ptr<PrometheusEndpoint>> PrometheusEndpoint::open(
    const telemetry::Metrics& metrics, const PrometheusOptions& options) {
  // What the server behind it takes for more than one address, or for options.
  if (options.address.empty() || options.address.find_first_of(",+ \t\n") != std::string::npos)
    return error(Code::invalid_argument,
                 cat("'", printable(options.address), "' is no address to listen at"),
                 "pass one address, such as 127.0.0.1");
  try {
    return std::unique_ptr<PrometheusEndpoint>(std::make_unique<Endpoint>(metrics, options));
  } catch (const std::exception& refused) {
    return error(Code::unavailable,
                 cat("cannot serve metrics at ", printable(options.address), ":", options.port,
                     ": ", refused.what()),
                 "choose another port, or 0 for any that is free");
  }
}

}  // namespace towpath::standard
