// What really happened, counted where it happened: bytes by the way they took, and detours.
// Published as metrics named towpath_nvme_*, each with the agent's name.
//
// They live in the composition's Metrics, or in one of their own where nobody reads them: two
// backends of one agent name share them. Thread: any (each is a number of its own).
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include <towpath/backends/nvme/splitter.h>
#include <towpath/telemetry/metrics.h>

namespace towpath::backends::nvme {

class Counters {
 public:
  /// `metrics` outlives it; null: the numbers are only its own. `agent` is a label.
  explicit Counters(telemetry::Metrics* metrics = nullptr, std::string_view agent = {});

 private:
  std::unique_ptr<telemetry::Metrics> own_;
  telemetry::Metrics& metrics_;
  const telemetry::Labels labels_;
  std::array<std::array<telemetry::Counter*, 2>, kPaths> moved_;  // of reads, of writes

  telemetry::Counter& counter(std::string_view name) { return metrics_.counter(name, labels_); }

 public:
  telemetry::Counter& commands;    ///< handed to the engine, repeated ones included
  telemetry::Counter& batches;     ///< flushes: system calls that started commands
  telemetry::Counter& retries;     ///< after a failure that may pass
  telemetry::Counter& isolations;  ///< commands taken apart to find the bad stretch
  telemetry::Counter& failures;    ///< commands that a drive or the kernel refused for good
  telemetry::Counter& strays;      ///< completions that belong to nothing

  /// Bytes in place.
  telemetry::Counter& moved(bool write, Path path) noexcept {
    return *moved_[static_cast<std::size_t>(path)][write ? 1 : 0];
  }

  /// "direct 4096 B read, 0 B written; bounce ...".
  std::string to_string() const;
};

}  // namespace towpath::backends::nvme
