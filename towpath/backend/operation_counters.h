// What backends count alike: bytes in place and ended operations, as metrics named
// towpath_BACKEND_*, each with the agent's name. A backend derives its own and adds the rest.
//
// They live in the composition's Metrics, or in one of their own where nobody reads them: two
// backends of one name and agent share them. Thread: any (each is a number of its own).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/status.h>
#include <towpath/telemetry/metrics.h>

namespace towpath::backend {

class OperationCounters {
 public:
  struct Names {
    std::string_view backend;
    std::string_view agent;
    /// Of the ways that bytes take, for the label `path`; empty: there is one, and no label.
    std::span<const std::string_view> paths;
  };
  /// `metrics` outlives it; null: the numbers are only its own.
  OperationCounters(telemetry::Metrics* metrics, const Names& names);

  /// Bytes in place; `path` is an index of Names::paths.
  telemetry::Counter& moved(bool write, std::size_t path = 0) noexcept {
    return *moved_[path][write ? 1 : 0];
  }
  /// One operation more ended as `status` says: done, failed or cancelled.
  void ended(bool write, const Status& status) noexcept;

  /// "direct 4096 B read, 0 B written; bounce ...".
  std::string moved_to_string() const;

 protected:
  /// "towpath_BACKEND_name", with the agent and perhaps one more label.
  telemetry::Counter& counter(std::string_view name, telemetry::Labels more = {});
  telemetry::Gauge& gauge(std::string_view name, telemetry::Labels more = {});

 private:
  using Both = std::array<telemetry::Counter*, 2>;  // of reads, of writes
  Both both(std::string_view name, std::string_view label, std::string_view value);
  telemetry::Labels with(telemetry::Labels more) const;

  std::unique_ptr<telemetry::Metrics> own_;
  telemetry::Metrics& metrics_;
  const std::string prefix_;
  const std::string agent_;
  std::vector<std::string> paths_;
  std::vector<Both> moved_;
  std::array<Both, 3> ended_;
};

/// Of a backend whose bytes move in pieces (piece_dispatcher.h).
class PieceCounters : public OperationCounters {
 public:
  PieceCounters(telemetry::Metrics* metrics, const Names& names);

  telemetry::Counter& batches;     ///< flushes: system calls that started pieces
  telemetry::Counter& retries;     ///< of what moved nothing and may do so the next time
  telemetry::Counter& isolations;  ///< pieces taken apart to find the bad extent
  telemetry::Counter& strays;      ///< completions that belong to nothing
};

}  // namespace towpath::backend
