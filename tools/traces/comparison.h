// What each policy would have hit on a trace, at each capacity, beside the optimum. Runs the real
// BlockPool with the real policies; only the bytes are missing.
// Thread: any.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <towpath/core/result.h>
#include <towpath/kv/eviction/policy.h>

#include "tools/traces/trace.h"

namespace towpath::traces {

struct Score {
  kv::PolicyKind policy = kv::PolicyKind::lru;
  std::uint64_t hits = 0;  ///< blocks found with all blocks before them
  std::uint64_t evictions = 0;
};

/// Plays the requests through a cache. The blocks of a request are held until all of them are
/// there; what does not fit beside them is not kept.
Score play(std::span<const Request> requests, kv::PolicyKind policy, kv::SlotId slots);
/// The same, and at the end of each request that is its session's last its blocks are spent, as the
/// hint `demote` does: what an orchestrator knows then, and no more. A
/// session goes on where a later request has the last whole block of this one.
Score play_with_hints(std::span<const Request> requests, kv::PolicyKind policy, kv::SlotId slots);

/// Those that are compared with hints, too.
inline constexpr std::array kHinted{kv::PolicyKind::lru, kv::PolicyKind::hit_density};

struct Comparison {
  kv::SlotId slots = 0;
  std::uint64_t uses = 0;     ///< of blocks, by all requests
  std::uint64_t optimum = 0;  ///< hits that nobody can have more of
  std::vector<Score> scores;
  std::vector<Score> hinted;  ///< of kHinted, with hints
};

Comparison compare(std::span<const Request> requests, std::span<const kv::PolicyKind> policies,
                   kv::SlotId slots);

}  // namespace towpath::traces
