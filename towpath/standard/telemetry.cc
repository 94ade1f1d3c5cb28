#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/standard/flight_file.h>
#include <towpath/standard/telemetry.h>
#include <towpath/sys/file.h>
#include <towpath/telemetry/agent_meter.h>

namespace towpath::standard {
namespace {

/// The same for what nobody insists on: nothing, and a warning why.
template <typename Part>
Result<Part> opened(const TelemetryOptions& options, std::string_view what, Result<Part> part) {
  if (part.ok() || options.required) return part;
  options.log.warning(cat(what, " is left out"), {{"why", part.status().to_string()}});
  return Part();
}

}  // namespace

Result<std::unique_ptr<Telemetry>> Telemetry::open(const TelemetryOptions& options,
                                                   const Clock& clock) {
  std::unique_ptr<Telemetry> made(new Telemetry());
  made->agent_ = options.agent;
  if (options.metrics != nullptr) made->metrics_ = options.metrics;
  if (!options.flight_directory.empty()) {
    sys::SystemFileSystem files;
    TOWPATH_TRY(made->flight_,
                opened(options, "the flight recorder",
                       FlightFile::open(files, clock,
                                        {.directory = options.flight_directory,
                                         .agent = options.agent,
                                         .process = static_cast<std::uint64_t>(getpid()),
                                         .records = options.flight_records})));
  }
  made->meter_ = std::make_unique<telemetry::AgentMeter>(
      *made->metrics_, telemetry::AgentMeter::Options{.agent = options.agent,
                                                      .max_peers = options.max_peers,
                                                      .time_bounds = options.time_bounds,
                                                      .flight = made->flight()});
  if (options.prometheus) {
    TOWPATH_TRY(made->endpoint_,
                opened(options, "the Prometheus endpoint",
                       PrometheusEndpoint::open(*made->metrics_, *options.prometheus)));
  }
  return made;
}

Telemetry::Telemetry() = default;
Telemetry::~Telemetry() = default;

telemetry::FlightRecorder* Telemetry::flight() noexcept {
  return flight_ ? &flight_->recorder() : nullptr;
}
std::string Telemetry::flight_path() const { return flight_ ? flight_->path() : std::string(); }

}  // namespace towpath::standard
