// Telemetry: what one agent's figures go to: metrics, perhaps served to Prometheus, and perhaps a
// flight recorder in a file. The composition that AgentOptions::meter wants.
//
//   TOWPATH_TRY(auto telemetry, Telemetry::open({.agent = "decode-0",
//                                                .flight_directory = "/var/tmp/flights"}, clock));
//   Agent::create({..., .meter = &telemetry->meter()});
//
// Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/core/result.h>
#include <towpath/telemetry/log.h>
#include <towpath/telemetry/metrics.h>

namespace towpath::telemetry {
class AgentMeter;
class FlightRecorder;
}  // namespace towpath::telemetry

namespace towpath::standard {

class FlightFile;

struct PrometheusOptions {
  std::string address = "127.0.0.1";  ///< of an interface; IPv6 in brackets; "0.0.0.0" is all
  std::uint16_t port = 9090;          ///< 0: the kernel chooses one
  bool nixl_names = true;
  /// Shell patterns of names, with or without their "_total": what is served. Empty: all.
  std::vector<std::string> enabled = {};
};

/// Metrics over HTTP, as Prometheus scrapes them: http://HOST:PORT/metrics. Over prometheus-cpp,
/// where the build found it; elsewhere open() says how to get it. It listens to this machine only,
/// unless set otherwise: it knows no password. Names are ours with `_nanoseconds` reported as
/// `_seconds`, and those that NIXL's users have on their dashboards (nixl_metrics.h). Thread: any.
/// It has threads of its own, which only read snapshots.
class PrometheusEndpoint {
 public:
  /// `metrics` must outlive it. Errors: unsupported (built without prometheus-cpp),
  /// invalid_argument (no address), unavailable (the port is taken, or the address is none of this
  /// machine).
  static Result<std::unique_ptr<PrometheusEndpoint>> open(const telemetry::Metrics& metrics,
                                                          const PrometheusOptions& options);
  virtual ~PrometheusEndpoint() = default;

  virtual std::uint16_t port() const = 0;
  /// "http://127.0.0.1:9090/metrics".
  virtual std::string url() const = 0;
};

struct TelemetryOptions {
  std::string agent;
  /// Shared with other agents of the process; null: metrics of its own. Must outlive the telemetry.
  telemetry::Metrics* metrics = nullptr;
  std::size_t max_peers = 64;  ///< with a label of their own
  telemetry::BucketBounds time_bounds;
  std::string flight_directory;  ///< empty: no flight recorder
  std::uint64_t flight_records = 4096;
  std::optional<PrometheusOptions> prometheus;
  /// Whether what cannot be opened (a directory, a port in use) is an error. Else it is reported to
  /// the log, and the rest counts.
  bool required = true;
  telemetry::Log log;
};

class Telemetry {
 public:
  /// `clock` must outlive it. Errors: those of FlightFile and PrometheusEndpoint.
  static Result<std::unique_ptr<Telemetry>> open(const TelemetryOptions& options,
                                                 const Clock& clock);
  ~Telemetry();

  telemetry::AgentMeter& meter() noexcept { return *meter_; }
  telemetry::Metrics& metrics() noexcept { return *metrics_; }
  /// Null: none.
  telemetry::FlightRecorder* flight() noexcept;
  /// For a cache of the same agent.
  telemetry::CacheMeterParts cache_meter() noexcept {
    return {.metrics = metrics_, .agent = agent_, .flight = flight()};
  }
  /// Of the flight recorder; empty: none.
  std::string flight_path() const;
  /// Of the Prometheus endpoint; empty: none.
  std::string prometheus_url() const { return endpoint_ ? endpoint_->url() : std::string(); }

 private:
  Telemetry();

  telemetry::Metrics own_metrics_;
  telemetry::Metrics* metrics_ = &own_metrics_;
  std::string agent_;
  std::unique_ptr<FlightFile> flight_;
  std::unique_ptr<telemetry::AgentMeter> meter_;
  std::unique_ptr<PrometheusEndpoint> endpoint_;  // dies first: it reads the metrics
};

}  // namespace towpath::standard
