// Reads the file of a flight recorder, for `towpath flight` and `towpath top`. Thread: any.
#pragma once

#include <string>

#include <towpath/core/result.h>
#include <towpath/telemetry/flight_events.h>
#include <towpath/telemetry/flight_log.h>

namespace towpath::tools {

/// A process may still write to it. Errors: those of opening it; corrupt (no flight recorder).
Result<telemetry::FlightLog> read_flight_file(const std::string& path);

/// What an agent recorded; its numbers stay what they are where they name no event.
inline telemetry::FlightEvent event_of(const telemetry::FlightRecord& record) {
  return static_cast<telemetry::FlightEvent>(record.what);
}

}  // namespace towpath::tools
