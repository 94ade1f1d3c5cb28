// FlightLog: what a flight recorder said, read from a copy of its bytes: a file that a crashed
// process left, or one that a living process still writes to.
//
// The bytes are hostile: nothing in them is believed unless it fits what is there, and a record
// that is torn is skipped and counted.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/telemetry/flight_recorder.h>

namespace towpath::telemetry {

struct FlightLog {
  std::uint64_t process = 0;
  Instant started;
  Duration started_since_epoch{0};
  std::uint64_t capacity = 0;         ///< records that the ring holds
  std::uint64_t recorded = 0;         ///< tickets given out since the start
  std::uint64_t dropped = 0;          ///< given up: a slower writer held the slot
  std::uint64_t torn = 0;             ///< skipped here: being written, cut off, or damaged
  std::vector<std::string> names;     ///< by number, less 1; any bytes
  std::vector<FlightRecord> records;  ///< oldest first

  /// The name with this number; empty when there is none.
  std::string_view name(std::uint64_t number) const noexcept;
  /// Wall time of a record, as far as the clock stood still meanwhile.
  Duration since_epoch(Instant at) const noexcept;
};

/// Cost: memory for as many records as `copy` has room for, at most.
/// Errors: corrupt (no flight recorder, cut off, counts that do not fit), unsupported (of another
/// version).
Result<FlightLog> read_flight(ConstByteSpan copy);

}  // namespace towpath::telemetry
