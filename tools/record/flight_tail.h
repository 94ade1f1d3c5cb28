// FlightTail: the transfers of one node, taken out of its flight recorder look by look.
//
// A recorder is a ring: what is overwritten between two looks is gone, and counted. A transfer
// that was posted before the first look's oldest record is not known.
// Thread: none of its own.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <towpath/telemetry/flight_log.h>

#include "tools/recording.h"

namespace towpath::tools {

class FlightTail {
 public:
  /// `began` is when the recording did, since the epoch. The name is path_safe() already.
  FlightTail(std::string node, Duration began) : node_(std::move(node)), began_(began) {}

  /// As many are waited for; the end of the oldest of more was overwritten, as like as not.
  static constexpr std::size_t kMostOpen = 65'536;

  /// The transfers that have ended since the last look, and those that are waited for no more.
  std::vector<RecordedTransfer> take(const telemetry::FlightLog& log);
  /// Those that have not ended yet.
  std::vector<RecordedTransfer> rest() const;
  /// Records of any kind that were overwritten before they were seen.
  std::uint64_t missed() const noexcept { return missed_; }
  /// The agent said farewell.
  bool closed() const noexcept { return closed_; }

 private:
  void see(const telemetry::FlightLog& log, const telemetry::FlightRecord& record);
  void settle(std::uint64_t ticket, const telemetry::FlightRecord& end);
  RecordedTransfer posted(const telemetry::FlightLog& log,
                          const telemetry::FlightRecord& record) const;

  std::string node_;
  Duration began_;
  std::vector<std::uint64_t> seen_;                        // tickets of the last look, ascending
  std::map<std::uint64_t, RecordedTransfer> open_;         // by ticket
  std::map<std::uint64_t, telemetry::FlightRecord> ends_;  // whose posts are not seen yet; by those
  std::vector<RecordedTransfer> ended_;                    // in this look
  std::uint64_t missed_ = 0;
  bool closed_ = false;
};

}  // namespace towpath::tools
