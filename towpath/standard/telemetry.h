// Telemetry: what one agent's figures go to: metrics, perhaps served to Prometheus, and perhaps a
// flight recorder in a file. The composition that AgentOptions::meter wants.
//
//   TOWPATH_TRY(auto telemetry, Telemetry::open({.agent = "decode-0",
//                                                .flight_directory = "/var/tmp/flights"}, clock));
//   Agent::create({..., .meter = &telemetry->meter()});
//
// Thread: any.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <towpath/core/clock.h>
#include <towpath/standard/prometheus.h>
#include <towpath/telemetry/agent_meter.h>
#include <towpath/telemetry/cache_meter.h>
#include <towpath/telemetry/log.h>

namespace towpath::standard {

class FlightFile;

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
