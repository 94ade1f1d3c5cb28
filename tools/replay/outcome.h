// What a replay came to: figures of both processes, and what was found wrong; and the rows that its
// reports have in common. Thread: immutable once filled.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/replay/account.h"
#include "tools/replay/faults.h"
#include "tools/replay/history.h"
#include "tools/replay/hop.h"
#include "tools/replay/options.h"

namespace towpath::tools::replay {

struct ReplayOutcome {
  std::uint64_t requests = 0;
  std::uint64_t blocks = 0;    ///< asked for, each once per request
  std::uint64_t verified = 0;  ///< blocks whose every byte and digest were right
  std::uint64_t mismatches = 0;
  std::uint64_t block_bytes = 0;
  double seconds = 0;

  ByPlace<std::uint64_t> found;
  std::uint64_t bad_loads = 0;      ///< of the misses
  std::uint64_t failed_leases = 0;  ///< that a neighbour did not bring to their end
  Hop produce, pull;
  Hop spill, load;   ///< to and from disk
  Hop store, fetch;  ///< to and from a tier of objects
  Hop lease;         ///< from other prefills
  History history;
  std::uint64_t verify_ns = 0;

  std::uint64_t kernel_read = 0, kernel_written = 0;
  bool direct = false;
  std::string direct_refusal;
  bool mistake_made = false;

  std::uint64_t prefills_lost = 0;  ///< that died while others lived
  std::uint64_t asked_again = 0;    ///< requests, of another prefill than the first

  Account injected;  ///< mistakes that were injected at random
  Faults faults;     ///< all others
};

/// A way that bytes go, by the name that it has everywhere.
struct HopName {
  const char* name;
  Hop ReplayOutcome::*hop;
  Place tier;  ///< without which it is not gone
};
inline constexpr std::array kHops{
    HopName{"produce", &ReplayOutcome::produce, Place::host},
    HopName{"pull", &ReplayOutcome::pull, Place::host},
    HopName{"spill", &ReplayOutcome::spill, Place::disk},
    HopName{"load", &ReplayOutcome::load, Place::disk},
    HopName{"store", &ReplayOutcome::store, Place::object},
    HopName{"fetch", &ReplayOutcome::fetch, Place::object},
    HopName{"lease", &ReplayOutcome::lease, Place::peers},
};

struct NamedHop {
  const char* name;
  const Hop& hop;
};
/// Those of the tiers that there are.
std::vector<NamedHop> hops_of(const Options& options, const ReplayOutcome& outcome);

/// A place where blocks were found, if there is such: how many, their share, and how large it is.
struct FoundRow {
  std::string_view place;
  std::uint64_t blocks;
  std::string share;
  std::string size;
};
std::vector<FoundRow> found_rows(const Options& options, const ReplayOutcome& outcome);

/// The share of the blocks that some tier had, from 0 to 1.
double hit_ratio(const ReplayOutcome& outcome);

}  // namespace towpath::tools::replay
