#include "tools/node_telemetry.h"

#include <cstdio>

#include <towpath/standard/configuration.h>

namespace towpath::tools {

Result<std::optional<standard::TelemetryOptions>> telemetry_of_environment() {
  TOWPATH_TRY(const auto reported, standard::configure(standard::read_environment()));
  for (const std::string& warning : reported.warnings_of(false))
    std::fprintf(stderr, "%s\n", warning.c_str());
  return reported.telemetry.decide(false);
}

}  // namespace towpath::tools
