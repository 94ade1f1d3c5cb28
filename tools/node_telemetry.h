// Whether and where a node of a command reports what it does: as the environment says
// (standard/configuration.h). Thread: any.
#pragma once

#include <optional>

#include <towpath/core/result.h>
#include <towpath/standard/telemetry.h>

namespace towpath::tools {

/// Warnings go to standard error. Errors: those of standard::configure().
Result<std::optional<standard::TelemetryOptions>> telemetry_of_environment();

}  // namespace towpath::tools
