// What really happened, counted where it happened. Published as metrics named towpath_gds_*, each
// with the agent's name.
//
// They live in the composition's Metrics, or in one of their own where nobody reads them: two
// backends of one agent name share them. Thread: any (each is a number of its own).
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include <towpath/telemetry/metrics.h>

namespace towpath::backends::gds {

class Counters {
 public:
  /// `metrics` outlives it; null: the numbers are only its own. `agent` is a label.
  explicit Counters(telemetry::Metrics* metrics = nullptr, std::string_view agent = {});

 private:
  std::unique_ptr<telemetry::Metrics> own_;
  telemetry::Metrics& metrics_;
  const telemetry::Labels labels_;
  std::array<telemetry::Counter*, 2> moved_;  // by reads, by writes

  telemetry::Counter& counter(std::string_view name) { return metrics_.counter(name, labels_); }

 public:
  telemetry::Counter& calls;                ///< of cuFileRead and cuFileWrite
  telemetry::Counter& batches;              ///< that the library took
  telemetry::Counter& short_continuations;  ///< I/Os that ended early and went on
  telemetry::Counter& failures;             ///< I/Os that failed for good

  /// Bytes in place.
  telemetry::Counter& moved(bool write) noexcept { return *moved_[write ? 1 : 0]; }
  /// "4096 B read, 0 B written; 1 calls ...".
  std::string to_string() const;
};

}  // namespace towpath::backends::gds
