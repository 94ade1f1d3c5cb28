// Explanation: which backend moves the bytes, which were refused, and why. A value that prints
// itself. Thread: immutable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <towpath/core/clock.h>

namespace towpath::agent {

struct Candidate {
  std::string backend;
  bool possible = false;
  bool chosen = false;
  std::string reason;    ///< why chosen, why only possible, or why refused
  std::string path;      ///< the way that bytes would take, where it is known
  Duration estimate{0};  ///< what it should cost; 0: unknown
  /// How much longer than the estimate the slowest trial of such transfers took; 0: nobody knows,
  /// since fewer than two were timed: what a backend declares, or measured itself, has no spread.
  Duration margin{0};
  bool measured = false;  ///< the estimate rests on measurement, else on what the backend declares
};

struct Explanation {
  std::string what;  ///< "read 4 MiB in 64 segments, system <- system of prefill-0"
  std::vector<Candidate> candidates;  ///< in the order in which they were considered

  /// The chosen one, or null.
  const Candidate* chosen() const;
  /// A line per candidate.
  std::string to_string() const;
};

}  // namespace towpath::agent
