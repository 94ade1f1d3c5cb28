// Finds and reads the files of flight recorders, for `towpath flight`, `top` and `record`.
// Thread: any.
#pragma once

#include <string>
#include <vector>

#include <towpath/core/result.h>
#include <towpath/telemetry/flight_log.h>
#include <towpath/telemetry/flight_recorder.h>

namespace towpath::tools {

struct RecorderFile {
  std::string path;
  bool named = false;  ///< by the user; else found in a directory, where it may be gone again
};
/// `places` are files, or directories of them. Errors: not_found (there is none, or no such place);
/// those of listing a directory.
Result<std::vector<RecorderFile>> recorders_in(const std::vector<std::string>& places);
/// not_found, and how a node gets one.
Status no_recorder_at(const std::string& place);

/// "flights/decode-0.4711.flight" -> "decode-0".
std::string node_name_of(const std::string& path);
/// Whether what writes to the recorder lives; false of what cannot be read.
bool writer_lives(const RecorderFile& recorder);

/// A process may still write to it. Errors: those of opening it (denied: what was found in a
/// directory is no plain file, nor a link to one); corrupt (no flight recorder).
Result<telemetry::FlightLog> read_flight_file(const RecorderFile& recorder);

/// What an agent recorded; its numbers stay what they are where they name no event.
inline telemetry::FlightEvent event_of(const telemetry::FlightRecord& record) {
  return static_cast<telemetry::FlightEvent>(record.what);
}

}  // namespace towpath::tools
