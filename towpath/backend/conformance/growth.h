// Growth: what the process holds before and after many rounds of something. Nothing may grow with
// their number.
//
// A suite does three hundred rounds, which shows a descriptor or a KiB that each leaves behind;
// `--rounds=10000` on the command line (`./dev test -l long`) does as many as it says, and
// allows no more growth: 27 bytes show. Thread: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace towpath::backend::conformance {

/// What the process holds.
struct Held {
  long descriptors = 0;
  long mappings = 0;
  long heap_bytes = 0;
  long resident_bytes = 0;
};

Held held_now();

/// How many rounds; main() may set it.
int& rounds();

/// Of cases that a seed varies: how many rounds, if not as many as usual, and from which seed on;
/// main() may set it.
struct Soak {
  std::optional<std::uint64_t> rounds;
  std::uint64_t seed = 1;
};
Soak& soak();

/// Runs `round` with -max(N/10, 30) .. N - 1, and expects that after round 0 nothing grew. What did
/// is counted over the next N rounds, and the N after them: a cache that a busy machine filled late
/// grows once, a leak each time. `settle` runs before each count: it finishes what a round may
/// leave under way.
void expect_no_growth(
    const std::function<void(int)>& round, const std::function<void()>& settle = [] {});

}  // namespace towpath::backend::conformance
