// Hop: one of the ways that bytes go in a replay, and what it cost.
// Thread: none of its own.
#pragma once

#include <cstdint>
#include <string>

#include <towpath/agent/explanation.h>
#include <towpath/agent/transfer.h>
#include <towpath/telemetry/histogram.h>

#include "tools/replay/message.h"

namespace towpath::tools::replay {

struct HopFigures {
  std::uint64_t bytes = 0;
  std::uint64_t busy_ns = 0;  ///< sum over its transfers
  std::uint64_t count = 0;    ///< transfers
  std::uint64_t p50_ns = 0, p90_ns = 0, p99_ns = 0;
  std::string path;

  double gigabytes_per_second() const {
    return busy_ns == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(busy_ns);
  }
};

class Hop {
 public:
  void add(std::uint64_t bytes, Duration time) {
    bytes_ += bytes;
    times_.record(time);
  }
  /// Counts what the backend says it moved, and remembers the way that the bytes took.
  Status add(const agent::Transfer& transfer) {
    TOWPATH_TRY(const agent::TransferReport report, transfer.report());
    add(report.bytes, Duration(static_cast<std::int64_t>(report.transfer_us * 1000)));
    if (path_.empty()) {
      const agent::Explanation told = transfer.explain();
      if (const agent::Candidate* chosen = told.chosen())
        path_ = chosen->backend + ": " + chosen->path + " (" + chosen->reason + ")";
    }
    return {};
  }
  void set_path(std::string path) { path_ = std::move(path); }

  HopFigures figures() const {
    const telemetry::HistogramSummary times = times_.summary();
    return {bytes_, times.sum, times.count, times.p50, times.p90, times.p99, path_};
  }

 private:
  std::uint64_t bytes_ = 0;
  telemetry::Histogram times_;
  std::string path_;
};

inline void put(Message& message, const std::string& name, const HopFigures& hop) {
  message.figures[name + ".bytes"] = hop.bytes;
  message.figures[name + ".busy_ns"] = hop.busy_ns;
  message.figures[name + ".count"] = hop.count;
  message.figures[name + ".p50_ns"] = hop.p50_ns;
  message.figures[name + ".p90_ns"] = hop.p90_ns;
  message.figures[name + ".p99_ns"] = hop.p99_ns;
  message.texts[name + ".path"] = hop.path;
}

inline HopFigures hop_from(const Message& message, const std::string& name) {
  const auto figure = [&](const char* which) {
    const auto found = message.figures.find(name + which);
    return found == message.figures.end() ? std::uint64_t{0} : found->second;
  };
  const auto path = message.texts.find(name + ".path");
  return {figure(".bytes"),
          figure(".busy_ns"),
          figure(".count"),
          figure(".p50_ns"),
          figure(".p90_ns"),
          figure(".p99_ns"),
          path == message.texts.end() ? "" : path->second};
}

}  // namespace towpath::tools::replay
