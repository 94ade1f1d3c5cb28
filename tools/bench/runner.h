// Runner: measures row after row, and verifies every byte after each.
// Thread: one at a time; its lanes are workers of its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <towpath/memory/registrar.h>
#include <towpath/standard/standard.h>

#include "tools/bench/lane.h"
#include "tools/bench/options.h"
#include "tools/bench/own_memory.h"
#include "tools/bench/remote.h"

namespace towpath::tools::bench {

/// How a list of times lies, in nanoseconds.
struct Spread {
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double p999 = 0;
  double max = 0;
};
/// Exact: the value that so many percent of the entries do not exceed. All zero for no entry.
Spread spread_of(std::vector<std::int64_t> nanoseconds);

struct Row {
  Shape shape;
  std::uint64_t iterations = 0;  ///< of each lane
  std::uint64_t bytes = 0;
  std::uint64_t segments = 0;  ///< of one transfer, after merging
  Duration wall{0};            ///< from the first lane's begin to the last one's end
  Duration cpu{0};             ///< of this process
  Duration target_cpu{0};      ///< of the other one; 0: there is none
  Spread prepare, post, transfer, latency;
  bool verified = false;
  std::string wrong;  ///< empty: every byte is right, or none was verified

  double bytes_per_second() const noexcept {
    return wall.count() > 0 ? static_cast<double>(bytes) / static_cast<double>(wall.count()) * 1e9
                            : 0;
  }
  /// As nixlbench reports it: wall time over iterations and blocks.
  double average_latency_ns() const noexcept {
    const auto blocks = static_cast<double>(iterations * shape.batch);
    return blocks > 0 ? static_cast<double>(wall.count()) / blocks : 0;
  }
};

class Runner {
 public:
  struct Parts {
    const Machine& machine;
    standard::Node& node;
    Remote& remote;
  };
  /// All of them must outlive it. Errors: those of OwnMemory and of the registration.
  static Result<std::unique_ptr<Runner>> open(const Options& options, const Parts& parts,
                                              std::uint64_t bytes);
  /// Errors: what a transfer or the other side failed with; wrong bytes are the row's news.
  Result<Row> measure(const Shape& shape);
  const std::string& path() const noexcept { return path_; }

 private:
  Runner(const Options& options, standard::Node& node, Remote& remote)
      : options_(options), node_(node), remote_(remote) {}

  std::uint64_t iterations_of(const Shape& shape) const;
  Result<Duration> prepare(const Blocks& blocks);
  Status check(const Blocks& blocks, Row& row);
  Result<std::vector<Lane>> open_lanes(const Shape& shape);
  Status run_lanes(std::vector<Lane>& lanes, std::uint64_t iterations);

  const Options& options_;
  standard::Node& node_;
  Remote& remote_;
  OwnMemory near_;
  memory::Registration registration_;
  std::uint64_t seed_ = 0;
  std::string path_;
};

/// All rows that the options ask for.
std::vector<Shape> shapes_of(const Options& options);

}  // namespace towpath::tools::bench
