// Lane: what one thread of a measurement does: posts transfers, one after another or several at a
// time, waits for each, and keeps every time.
// Thread: one at a time.
#pragma once

#include <cstdint>
#include <vector>

#include <towpath/agent/agent.h>

#include "tools/bench/options.h"
#include "tools/bench/remote.h"

namespace towpath::tools::bench {

/// Every time of one lane, in nanoseconds; each list has one entry per transfer, `prepare` one per
/// transfer that was made.
struct Times {
  std::vector<std::int64_t> prepare;   ///< resolving the lists and making the transfer
  std::vector<std::int64_t> post;      ///< inside post()
  std::vector<std::int64_t> transfer;  ///< from there until it had ended
  std::vector<std::int64_t> latency;   ///< both
  Instant begin;
  Instant end;
  std::uint64_t bytes = 0;
  std::uint64_t segments = 0;  ///< of one transfer, after merging
};

class Lane {
 public:
  struct Part {
    agent::Agent* agent = nullptr;
    const Clock* clock = nullptr;
    const Remote* remote = nullptr;
    const Options* options = nullptr;
    RegionDescriptor local;          ///< of all lanes
    std::uint64_t offset_bytes = 0;  ///< of the lane's own area, here and there
    Shape shape;
  };

  /// Makes its transfers. Errors: those of Agent::make_transfer.
  static Result<Lane> open(const Part& part);
  /// Runs so many transfers. Errors: what the first one failed with that did not end as done.
  Status run(std::uint64_t iterations);

  const Times& times() const noexcept { return times_; }
  /// What warming up took. The times of making stay, unless each transfer is made anew.
  void forget_runs();
  std::string path() const;

 private:
  explicit Lane(const Part& part) : part_(part) {}

  struct Flight {
    agent::Transfer transfer;
    Instant begin;
    Instant posted;
    bool active = false;
  };

  Status make(std::size_t slot);
  Status launch(std::size_t slot);
  Status land(std::size_t slot);

  Part part_;
  std::vector<Flight> flights_;
  Times times_;
};

}  // namespace towpath::tools::bench
