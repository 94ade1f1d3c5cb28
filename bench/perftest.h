// Perftest: UCX's own measurement (ucx_perftest, package ucx-utils) between two processes of this
// machine, as a reference.
//
//   Perftest{.transports = "tcp", .test = "tag_bw", .size = 4096, .iterations = 1000}
//
// Each sample is two new processes. One that gives no figure ends the measurement. Thread: one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "bench/harness.h"

namespace towpath::bench {

struct Perftest {
  std::string transports;  ///< as UCX_TLS
  std::string test;        ///< as -t
  std::uint64_t size = 0;  ///< bytes of a message
  std::uint64_t iterations = 1;
  std::string how = "-E sleep";  ///< how its two sides wait

  /// Iterations before those that count.
  std::uint64_t warm_up() const { return std::max<std::uint64_t>(1, iterations / 10); }
  /// What the side that measures is called as.
  std::string command() const;
};

/// Nanoseconds per byte, of all iterations together.
Sample bandwidth_of(const Perftest& test);
/// Nanoseconds per byte of the median iteration, for tests whose iterations are over when they
/// return (puts and gets by mapped memory). It knows nothing of the processor's other users.
Sample median_bandwidth_of(const Perftest& test);
/// Nanoseconds there and back.
Sample round_trip_of(const Perftest& test);

}  // namespace towpath::bench
