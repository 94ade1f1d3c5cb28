// How the environment switches telemetry, in NIXL's names (NIXL_TELEMETRY_...), and in ours
// (TOWPATH_TELEMETRY_...), which win. The table is in telemetry_environment.cc; `towpath doctor
// --settings` prints it. Names of NIXL that have no use here are remarked on, as are unknown ones
// of both families: a typing error must not be silent. Thread: any.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <towpath/standard/settings.h>
#include <towpath/standard/telemetry.h>

namespace towpath::standard {

struct TelemetryFromEnvironment {
  std::optional<bool> enabled;  ///< nothing: the environment does not say
  TelemetryOptions options;
  std::vector<Remark> remarks;
  std::string place;  ///< the variable that names where figures go; empty: none does

  /// What to open when the code asked for telemetry, or did not.
  std::optional<TelemetryOptions> decide(bool asked) const {
    return enabled.value_or(asked) ? std::optional(options) : std::nullopt;
  }
  /// What is worth a warning where nothing is opened: a place is named, and nobody says yes or no.
  std::optional<Remark> remark_on(bool asked) const {
    if (enabled || asked || place.empty()) return {};
    return Remark{place, "has no effect: telemetry is off; TOWPATH_TELEMETRY_ENABLE=1 turns it on"};
  }
};

/// `options` begins as `defaults`, and insists on nothing: who sets a variable for many processes
/// must not end those that find the port taken. Errors: invalid_argument (a value that makes no
/// sense; the name and the value are reported).
Result<TelemetryFromEnvironment> telemetry_from(const Environment& environment,
                                                const TelemetryOptions& defaults = {});

/// Those that it reads, each once.
std::vector<Setting> telemetry_settings();

}  // namespace towpath::standard
