// Reads the file of a flight recorder, for `towpath flight` and `towpath top`. Thread: any.
#pragma once

#include <string>

#include <towpath/core/result.h>
#include <towpath/telemetry/flight_log.h>

namespace towpath::tools {

/// A process may still write to it. Errors: those of opening it; corrupt (no flight recorder).
Result<telemetry::FlightLog> read_flight_file(const std::string& path);

}  // namespace towpath::tools
