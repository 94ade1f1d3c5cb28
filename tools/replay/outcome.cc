#include "tools/replay/outcome.h"

#include <towpath/core/format.h>

#include "tools/units.h"

namespace towpath::tools::replay {
namespace {

std::uint64_t all_blocks(const ReplayOutcome& outcome) {
  std::uint64_t all = 0;
  for (const Place place : kPlaces) all += outcome.found[place];
  return all;
}

std::string size_text_of(Place place, const Options& options, const ReplayOutcome& outcome) {
  const std::string blocks =
      cat(grouped(blocks_of(options, place, outcome.block_bytes)), " blocks");
  switch (place) {
    case Place::host: return cat(blocks, ", ", name_of(options.policy));
    case Place::disk: {
      if (outcome.direct) return cat(blocks, ", past the page cache");
      const std::string& why = outcome.direct_refusal;
      return cat(blocks, ", through the page cache", why.empty() ? "" : ": ", why);
    }
    case Place::object: return cat(blocks, " in a store");
    case Place::peers: {
      const std::uint64_t others = options.prefills - 1;
      const std::string failed = cat("; ", grouped(outcome.failed_leases), " leases failed");
      return cat("of ", others, " other prefill", others == 1 ? "" : "s",
                 outcome.failed_leases == 0 ? "" : failed);
    }
    case Place::miss: break;
  }
  return outcome.bad_loads == 0 ? "" : cat(grouped(outcome.bad_loads), " of them bad below");
}

}  // namespace

std::vector<NamedHop> hops_of(const Options& options, const ReplayOutcome& outcome) {
  std::vector<NamedHop> hops;
  for (const HopName& one : kHops)
    if (has(options, one.tier)) hops.push_back({one.name, outcome.*one.hop});
  return hops;
}

std::vector<FoundRow> found_rows(const Options& options, const ReplayOutcome& outcome) {
  std::vector<FoundRow> rows;
  for (const Place place : kPlaces) {
    if (!has(options, place)) continue;
    const std::uint64_t blocks = outcome.found[place];
    rows.push_back({name_of(place), blocks, percent(ratio_of(blocks, all_blocks(outcome))),
                    size_text_of(place, options, outcome)});
  }
  return rows;
}

double hit_ratio(const ReplayOutcome& outcome) {
  const std::uint64_t all = all_blocks(outcome);
  return ratio_of(all - outcome.found[Place::miss], all);
}

}  // namespace towpath::tools::replay
