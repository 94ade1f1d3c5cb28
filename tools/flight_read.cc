#include "tools/flight_read.h"

#include <towpath/core/text.h>
#include <towpath/standard/flight_file.h>
#include <towpath/telemetry/flight_recorder.h>

namespace towpath::tools {

Result<telemetry::FlightLog> read_flight_file(const std::string& path) {
  sys::SystemFileSystem files;
  TOWPATH_TRY(const auto file, files.open(path, {}));
  TOWPATH_TRY(const std::uint64_t size, file->size());
  const std::uint64_t most = telemetry::FlightRecorder::bytes_for(standard::kMostFlightRecords);
  if (size > most)
    return error(Code::corrupt,
                 cat(path, " has ", size, " bytes, a flight recorder at most ", most),
                 "pass a file that a Towpath process wrote");
  Bytes copy(size);
  TOWPATH_TRY(sys::read_exactly(*file, copy, 0));
  auto log = telemetry::read_flight(copy);
  if (!log.ok())
    return error(log.code(), cat(printable(path, 256), ": ", log.status().message()),
                 std::string(log.status().remedy()));
  return log;
}

}  // namespace towpath::tools
