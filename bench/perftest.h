// Perftest: UCX's own measurement (ucx_perftest, package ucx-utils) between two processes of this
// machine, as a reference.
//
//   Perftest{.transports = "tcp", .test = "tag_bw", .size = 4096, .iterations = 1000}
//
// Each sample is two new processes. One that gives no figure ends the measurement. Thread: one.
#pragma once

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

  /// What the side that measures is called as.
  std::string command() const;
};

/// Nanoseconds per byte.
Sample bandwidth_of(const Perftest& test);
/// Nanoseconds there and back.
Sample round_trip_of(const Perftest& test);

}  // namespace towpath::bench
