// What really happened, counted where it happened. Published as metrics named towpath_nvme_*.
// Thread: any (each is a number of its own).
#pragma once

#include <string>
#include <string_view>

#include <towpath/backend/operation_counters.h>
#include <towpath/backends/nvme/splitter.h>

namespace towpath::backends::nvme {

class Counters : public backend::PieceCounters {
 public:
  /// As PieceCounters.
  explicit Counters(telemetry::Metrics* metrics = nullptr, std::string_view agent = {});

  telemetry::Counter& commands;  ///< handed to the engine, repeated ones included
  telemetry::Counter& failures;  ///< commands that a drive or the kernel refused for good

  telemetry::Counter& moved(bool write, Path path) noexcept {
    return PieceCounters::moved(write, static_cast<std::size_t>(path));
  }

  /// "direct 4096 B read, 0 B written; bounce ...".
  std::string to_string() const;
};

}  // namespace towpath::backends::nvme
