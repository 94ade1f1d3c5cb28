// What the two halves of a connector say to each other: the scheduler's orders for a step of the
// engine, and each worker's report of what came of them. Both are values, and bytes for an engine
// whose halves are processes: docs/formats/kv_connector.md.
//
// What comes in is hostile: bounded before anything is allocated. Thread: immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/clock.h>
#include <towpath/core/result.h>
#include <towpath/kv/block_id.h>
#include <towpath/kv/blocks/block_directory.h>

namespace towpath::kv {

using RequestId = std::string;  ///< the engine's; any bytes
inline constexpr std::uint64_t kMaxRequestId = 1024;
inline constexpr std::uint32_t kMaxConnectorWorkers = 64;

// Hints: what an engine's orchestrator knows of blocks (a session pauses, another comes back), and
// what became of each. The actions are those that vLLM's users asked for; the words are ours
// (docs/guides/hints.md), since no engine defines any.
//
//   scheduler: hint(request, ...) --> HintOrder --> worker: HintRunner --> HintAnswer --> scheduler
//
// Sessions that begin alike have blocks in common: what one lets go of, others still hold. A hint
// costs at most its share of the memory, never a wrong byte.

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

/// A block of tokens, and the engine's block that its bytes are, or shall be, in.
struct BlockOrder {
  BlockHash hash = 0;
  std::uint64_t block = 0;
  std::optional<BlockHash> parent{};  ///< the block before it in its prompt; none: the first

  friend bool operator==(const BlockOrder&, const BlockOrder&) = default;
};

/// Blocks of one request.
struct RequestOrder {
  RequestId request;
  /// A load: the request is not in this step, and waits to hear that it has been received. A save:
  /// it may go on after the step.
  bool in_background = false;
  std::vector<BlockOrder> blocks;
  /// Of a save: how soon its blocks go on to files and objects.
  std::uint8_t priority = kUsualPriority;
  TenantId tenant = 0;  ///< of a save: whose its blocks are

  friend bool operator==(const RequestOrder&, const RequestOrder&) = default;
};

struct StepOrders {
  std::uint64_t step = 0;
  std::vector<RequestOrder> loads;
  std::vector<RequestOrder> saves;
  /// What is being saved of these is saved before anything of the step is written: their blocks
  /// may be others' now.
  std::vector<RequestId> settle;
  /// These have ended: the worker says when it reads their blocks no more.
  std::vector<RequestId> ends;
  std::vector<HintOrder> hints{};

  /// Nothing is to be done: the step is no news to a worker.
  bool empty() const {
    return loads.empty() && saves.empty() && settle.empty() && ends.empty() && hints.empty();
  }

  friend bool operator==(const StepOrders&, const StepOrders&) = default;
};

struct WorkerReport {
  std::uint32_t worker = 0;
  /// What this worker said before is void: what it has is reported from the start.
  bool is_first = false;
  /// Of such a report: no earlier life is over. What was ordered is still done, and a block that
  /// was held is gone only if it has not been reported when nothing `more_follows`.
  bool goes_on = false;
  bool more_follows = false;        ///< the next report has more of what there was from the start
  std::vector<BlockHash> stored;    ///< can be loaded from now on
  std::vector<BlockHash> lost;      ///< cannot (any more), or could not be saved
  std::vector<RequestId> received;  ///< background loads that have ended, well or not
  std::vector<RequestId> sent;      ///< of `ends`: their blocks are read no more
  std::vector<std::uint64_t> failed_blocks;  ///< the engine's: what was loaded is not in them
  /// The tiers of `stored`, as many; none: all are in memory.
  std::vector<TierIndex> tiers;
  std::vector<TierCost> costs;  ///< that have changed; an hour stands for more
  std::vector<HintAnswer> hints{};
  /// Of `stored`, those that outlive this worker's process (TieredKeeper::outlives_this()).
  std::vector<BlockHash> lasting{};
  /// The first step that this life was given orders for: what earlier ones were to load, nobody
  /// loads. Said once.
  std::optional<std::uint64_t> first_step{};

  bool says_nothing() const { return *this == WorkerReport{.worker = worker}; }
  friend bool operator==(const WorkerReport&, const WorkerReport&) = default;
};

/// Errors: out_of_range (over a limit).
Result<Bytes> encode(const StepOrders& orders);
Result<Bytes> encode(const WorkerReport& report);
/// Errors: as wire::open() and the decoder's.
Result<StepOrders> decode_step_orders(ConstByteSpan bytes);
Result<WorkerReport> decode_worker_report(ConstByteSpan bytes);

}  // namespace towpath::kv
