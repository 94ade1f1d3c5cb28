// What really happened, counted where it happened. Published as metrics named towpath_gds_*, each
// with the agent's name. Thread: any (each is a number of its own).
#pragma once

#include <string>
#include <string_view>

#include <towpath/backend/operation_counters.h>

namespace towpath::backends::gds {

class Counters : public backend::PieceCounters {
 public:
  /// `metrics` outlives it; null: the numbers are only its own. `agent` is a label.
  explicit Counters(telemetry::Metrics* metrics = nullptr, std::string_view agent = {});

  telemetry::Counter& calls;                ///< of cuFileRead and cuFileWrite
  telemetry::Counter& batched;              ///< batches that the library took
  telemetry::Counter& short_continuations;  ///< I/Os that ended early and went on
  telemetry::Counter& failures;             ///< I/Os that failed for good

  /// "4096 B read, 0 B written; 1 calls ...".
  std::string to_string() const;
};

}  // namespace towpath::backends::gds
