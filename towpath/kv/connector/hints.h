// Hints: what an engine's orchestrator knows of blocks (a session pauses, another comes back), and
// what became of each. The actions are those that vLLM's users asked for; the words are ours
// (docs/guides/hints.md), since no engine defines any.
//
//   scheduler: hint(request, ...) --> HintOrder --> worker --> HintRunner --> HintAnswer -->
//   scheduler
//
// Sessions that begin alike have blocks in common: what one lets go of, others still hold. A hint
// costs at most its share of the memory, never a wrong byte. Thread: values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/core/result.h>
#include <towpath/kv/block_id.h>

namespace towpath::kv {

/// Numbers travel: never renumber.
enum class HintAction : std::uint8_t {
  prefetch = 1,  ///< bring what is below memory into memory, for a use that comes soon
  pin = 2,       ///< the same, and keep it there for `keep`
  retain = 3,    ///< keep what is in memory there for `keep`
  demote = 4,    ///< write it below, and let it be the first to leave memory
  share = 5,     ///< keep it for `keep` where peers find it
};
inline constexpr std::uint8_t kHintActions = 5;

/// "prefetch", ...
std::string_view name_of(HintAction action) noexcept;
/// Errors: invalid_argument, with the actions that there are.
Result<HintAction> hint_action_named(std::string_view name);

inline constexpr Duration kLongestHint = std::chrono::hours(24);

/// Of a session's name; of none, 0.
std::uint64_t session_of(std::string_view name);

struct HintOrder {
  std::uint64_t number = 0;  ///< the scheduler's
  HintAction action = HintAction::prefetch;
  Duration after{0};  ///< from when the worker hears of it; at most kLongestHint
  Duration keep{0};   ///< of pin, retain and share; 0: no longer
  std::vector<BlockHash> blocks;
  /// Who holds, lets go and demotes (session_of()); 0: nobody in particular.
  std::uint64_t session = 0;

  friend bool operator==(const HintOrder&, const HintOrder&) = default;
};

enum class HintOutcome : std::uint8_t {
  accepted = 1,  ///< done, for all blocks that there are
  clipped = 2,   ///< done for some: the rest is over the share of memory, or had no room in time
  rejected = 3,  ///< for none of them
};
/// "accepted", ...
std::string_view name_of(HintOutcome outcome) noexcept;

struct HintAnswer {
  std::uint64_t number = 0;  ///< the order's
  HintOutcome outcome = HintOutcome::accepted;
  std::uint64_t blocks = 0;  ///< that it was done for
  std::uint64_t left = 0;    ///< that it was not done for: over the share, or in no tier in time
  std::string why{};         ///< where it was not accepted

  friend bool operator==(const HintAnswer&, const HintAnswer&) = default;
};

}  // namespace towpath::kv
