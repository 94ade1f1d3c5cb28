// What really happened, counted where it happened. Published as metrics named towpath_object_*,
// each with the agent's name.
//
// They live in the composition's Metrics, or in one of their own where nobody reads them.
// Thread: any (each is a number of its own).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <towpath/core/status.h>
#include <towpath/core/transfer_state.h>
#include <towpath/telemetry/metrics.h>

namespace towpath::backends::object {

class Counters {
 public:
  /// `metrics` outlives it; null: the numbers are only its own. `agent` is a label.
  explicit Counters(telemetry::Metrics* metrics = nullptr, std::string_view agent = {});

 private:
  std::unique_ptr<telemetry::Metrics> own_;
  telemetry::Metrics& metrics_;
  telemetry::Labels labels_;

  telemetry::Counter& counter(std::string_view name) { return metrics_.counter(name, labels_); }
  telemetry::Labels with(std::string_view name, std::string_view value) const;
  using Both = std::array<telemetry::Counter*, 2>;  // of reads, of writes
  Both moved_;
  std::array<Both, 3> ended_;

 public:
  telemetry::Counter& requests;   ///< sent, repeated ones included
  telemetry::Counter& retries;    ///< requests that were sent again
  telemetry::Counter& gap_bytes;  ///< read between stretches, and thrown away
  telemetry::Counter& uploads;    ///< in parts
  telemetry::Counter& aborts;     ///< of those, given up and taken back
  telemetry::Gauge& in_flight;    ///< requests under way

  /// Bytes in place.
  telemetry::Counter& moved(TransferOp op) noexcept { return *moved_[op == TransferOp::write]; }
  void ended(TransferOp op, const Status& status);

  /// "read 4096 B, written 0 B; 3 requests, 1 retried ...".
  std::string to_string() const;
};

}  // namespace towpath::backends::object
