#include "tools/node_telemetry.h"

#include <cstdio>

#include <towpath/standard/configuration.h>

namespace towpath::tools {

Result<std::optional<standard::TelemetryOptions>> telemetry_of_environment() {
  TOWPATH_TRY(const auto told, standard::configure(standard::read_environment()));
  for (const std::string& warning : told.warnings) std::fprintf(stderr, "%s\n", warning.c_str());
  return told.telemetry.decide(false);
}

}  // namespace towpath::tools
