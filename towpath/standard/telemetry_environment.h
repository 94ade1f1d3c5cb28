// How the environment switches telemetry, in NIXL's names, and in ours, which win:
//
//   NIXL_TELEMETRY_ENABLE                  yes, no (1, 0, true, false, on, off, enable, disable)
//                                          say the last word, whatever the code asks for
//   NIXL_TELEMETRY_DIR                     a flight recorder in a file of this directory
//   NIXL_TELEMETRY_BUFFER_SIZE             its records (4096)
//   NIXL_TELEMETRY_EXPORTER                BUFFER, NOP, prometheus
//   NIXL_TELEMETRY_PROMETHEUS_PORT         9090; 0: the kernel chooses
//   NIXL_TELEMETRY_PROMETHEUS_LOCAL        no: all interfaces of the machine, without a password
//   NIXL_TELEMETRY_HISTOGRAM_BUCKETS_US    ascending bounds, with commas
//   NIXL_TELEMETRY_ENABLED_METRICS         what the endpoint serves: names, * and ?, with commas
//
// TOWPATH_TELEMETRY_... means the same. Names of NIXL that have no use here are remarked on, as
// are unknown ones of both families: a typing error must not be silent. Thread: any.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <towpath/standard/environment.h>
#include <towpath/standard/telemetry.h>

namespace towpath::standard {

struct TelemetryFromEnvironment {
  std::optional<bool> enabled;  ///< nothing: the environment does not say
  TelemetryOptions options;
  std::vector<Remark> remarks;

  /// What to open when the code asked for telemetry, or did not.
  std::optional<TelemetryOptions> decide(bool asked) const {
    return enabled.value_or(asked) ? std::optional(options) : std::nullopt;
  }
};

/// `options` begins as `defaults`, and insists on nothing: who sets a variable for many processes
/// must not end those that find the port taken. Errors: invalid_argument (a value that makes no
/// sense; the name and the value are reported).
Result<TelemetryFromEnvironment> telemetry_from(const Environment& environment,
                                                const TelemetryOptions& defaults = {});

}  // namespace towpath::standard
