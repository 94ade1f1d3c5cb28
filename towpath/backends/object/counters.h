// What really happened, counted where it happened. Published as metrics named towpath_object_*.
// Thread: any (each is a number of its own).
#pragma once

#include <string>
#include <string_view>

#include <towpath/backend/operation_counters.h>
#include <towpath/core/transfer_state.h>

namespace towpath::backends::object {

class Counters : public backend::OperationCounters {
 public:
  /// As OperationCounters.
  explicit Counters(telemetry::Metrics* metrics = nullptr, std::string_view agent = {});

  telemetry::Counter& requests;   ///< sent, repeated ones included
  telemetry::Counter& retries;    ///< requests that were sent again
  telemetry::Counter& gap_bytes;  ///< read between extents, and thrown away
  telemetry::Counter& uploads;    ///< in parts
  telemetry::Counter& aborts;     ///< of those, given up and taken back
  telemetry::Gauge& in_flight;    ///< requests under way

  telemetry::Counter& moved(TransferOp op) noexcept {
    return OperationCounters::moved(op == TransferOp::write);
  }

  /// "4096 B read, 0 B written; 3 requests, 1 of them again ...".
  std::string to_string() const;
};

}  // namespace towpath::backends::object
