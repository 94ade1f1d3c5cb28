// What a replay came to: figures of both processes, and what was found wrong.
// Thread: immutable once filled.
#pragma once

#include <cstdint>
#include <string>

#include "tools/replay/chance.h"
#include "tools/replay/faults.h"
#include "tools/replay/history.h"
#include "tools/replay/hop.h"

namespace towpath::tools::replay {

struct ReplayOutcome {
  std::uint64_t requests = 0;
  std::uint64_t blocks = 0;    ///< asked for, each once per request
  std::uint64_t verified = 0;  ///< blocks whose every byte and digest were right
  std::uint64_t mismatches = 0;
  std::uint64_t block_bytes = 0;
  double seconds = 0;

  std::uint64_t host_hits = 0, disk_hits = 0, object_hits = 0, misses = 0, bad_loads = 0;
  std::uint64_t found() const { return host_hits + disk_hits + object_hits; }
  Hop produce, pull, spill, load;
  Hop store, fetch;  ///< to and from a tier of objects
  bool has_objects() const { return store.times().count() + fetch.times().count() > 0; }
  History history;
  std::uint64_t verify_ns = 0;

  std::uint64_t kernel_read = 0, kernel_written = 0;
  bool direct = false;
  std::string direct_refusal;
  bool mistake_made = false;

  std::uint64_t prefills_lost = 0;  ///< that died while others lived
  std::uint64_t asked_again = 0;    ///< requests, of another prefill than the first

  InjectedByName injected;  ///< mistakes that were made by chance
  Faults faults;            ///< all others
};

}  // namespace towpath::tools::replay
