// ConnectorScheduler: the half of an engine's KV connector that sits with its scheduler. It knows
// which blocks the workers hold, and orders, step by step, what they load and save. It sees no
// byte.
//
//   for each request that comes:   match() ----> allocate()
//   for each step:                 advance() of each request in it, then build() for the workers
//   after each step:               update() with each worker's report
//   around each step:              step_begins(), step_ends(), which measure what computing costs
//   when a request ends:           finish(); when it has to make room meanwhile, preempt()
//
// An engine whose layers are unlike (full attention, sliding windows, recurrent states) gives a
// request blocks of several groups (BlockGroup). A prompt's first tokens are matched when all
// groups can go on behind them, or not at all.
//
// With those, what would be loaded more slowly than it is computed is not matched
// (load_or_compute.h). A match is best effort: the block may be gone, or found wrong, when a worker
// wants it. Then that block is a load error, the report says so, and it is matched no more.
// Invariants: a block is matched only after every worker has said that it holds it; a hash is
// ordered to be saved once at a time. Thread: loop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/result.h>
#include <towpath/kv/blocks/block_directory.h>
#include <towpath/kv/blocks/sequence_hash.h>
#include <towpath/kv/connector/orders.h>

namespace towpath::kv {

/// A group of an engine's layers: layers of a kind share block tables. A request has one for each
/// group, and its i-th block of any group is for the same tokens. Source: vLLM's kv_cache_groups
/// (vllm/v1/kv_cache_interface.py).
///
///   tokens         0 . . 1 . . 2 . . 3 . . 4 . . 5   next
///   whole          [ 17 ][ 18 ][ 19 ][ 20 ][ 21 ]     all of it is needed to go on
///   window of 5    [  - ][  - ][  - ][ 44 ][ 45 ]     the blocks that its last 5 tokens are in
///   state          [  - ][  - ][  - ][  - ][ 61 ]     what is behind the last token
struct BlockGroup {
  enum class Kind : std::uint8_t {
    whole,   ///< each token attends to all before it
    window,  ///< to the last `window_tokens` before it
    state,   ///< blocks hold the state behind their last token, which only a step's end makes
  };
  Kind kind = Kind::whole;
  std::uint64_t window_tokens = 0;

  /// Of `blocks` blocks of a request, the first that is needed to go on behind them.
  std::uint64_t first_needed(std::uint64_t blocks, std::uint64_t tokens_per_block) const noexcept {
    if (kind == Kind::whole || blocks == 0) return 0;
    const std::uint64_t tokens = kind == Kind::state ? 1 : window_tokens;
    const std::uint64_t needed =
        tokens / tokens_per_block + (tokens % tokens_per_block != 0 ? 1 : 0);
    return blocks - std::min(blocks, needed);
  }
};

/// What a step of the engine computes for a request: it has `before` tokens when the step begins,
/// and `after` when it ends.
struct StepOfRequest {
  std::uint64_t before = 0, after = 0;
};

/// The engine's blocks of a request: a table for each group, or the only one. Borrows what it is
/// made of.
class BlockTables {
 public:
  BlockTables() = default;
  BlockTables(std::span<const std::uint64_t> only) : only_(only) {}     // NOLINT: as its table
  BlockTables(const std::vector<std::uint64_t>& only) : only_(only) {}  // NOLINT: the same
  BlockTables(std::span<const std::vector<std::uint64_t>> all) : all_(all) {}  // NOLINT: the same

  std::size_t size() const noexcept { return all_.empty() ? 1 : all_.size(); }
  std::span<const std::uint64_t> operator[](std::size_t group) const noexcept {
    return all_.empty() ? only_ : std::span(all_[group]);
  }

 private:
  std::span<const std::uint64_t> only_;
  std::span<const std::vector<std::uint64_t>> all_;
};

struct ConnectorSchedulerOptions {
  std::uint64_t tokens_per_block = 16;
  std::uint32_t workers = 1;  ///< ranks that each have a share of every block; at most 64
  std::uint64_t salt = 0;     ///< secret where tenants do not trust each other (sequence_hash.h)
  std::string name_space;     ///< the model, and whatever else makes equal tokens unequal
  /// Loads of so many tokens and more happen in the background, while the request waits.
  std::uint64_t background_from_tokens = UINT64_MAX;
  /// Saves may go on after their step: a request's blocks stay until it has been `sent`.
  bool saves_in_background = false;
  /// Events say which tokens a block holds, as routers want it: 4 bytes are kept for each. A block
  /// whose tokens no request has named yet is reported when one does.
  bool events_with_tokens = false;
  /// Events also say which blocks have come to where no worker's end reaches, files, objects or a
  /// server, and which are there no more.
  bool lasting_events = false;
  /// One for each group of the engine's layers; all have blocks of as many tokens. The first names
  /// blocks in events.
  std::vector<BlockGroup> groups{{}};
  /// The engine's number for a block that there is none of, in the table of a group that has passed
  /// its window; none: all blocks are.
  std::optional<std::uint64_t> null_block{};
  /// Outlives the scheduler, and measures its engine's steps; null: all that is held is matched.
  const Clock* clock = nullptr;
};

/// Of a block that all workers hold, or hold no more.
struct HeldBlockEvent {
  BlockEvent::Kind kind = BlockEvent::Kind::stored;
  BlockHash hash = 0;
  // Of a stored block, where tokens are reported:
  std::optional<BlockHash> parent{};  ///< none: it is the first of its prompt
  std::vector<TokenId> tokens{};
  std::string room{};  ///< adapter, tenant: as match() was reported
  /// It is now where no worker's end reaches, or is so no more; it was reported as stored before,
  /// and is reported as removed later, besides.
  bool is_lasting = false;

  friend bool operator==(const HeldBlockEvent&, const HeldBlockEvent&) = default;
};

class ConnectorScheduler {
 public:
  /// Errors: invalid_argument (no tokens in a block, no workers or too many, no group; with several
  /// groups or a window, loads that are not in the background: a step could not say what failed).
  static Result<ConnectorScheduler> make(ConnectorSchedulerOptions options);

  ConnectorScheduler(ConnectorScheduler&&) noexcept;
  ConnectorScheduler& operator=(ConnectorScheduler&&) noexcept;
  ~ConnectorScheduler();

  struct Prompt {
    RequestId request;
    std::span<const TokenId> tokens;
    std::uint64_t computed = 0;  ///< tokens that the engine has in its own cache
    std::string_view room;       ///< adapter, tenant: beside the engine's name space
    /// Whose its blocks are, where a server has quotas (tenant_of()); 0: whose the engine's salt
    /// is.
    TenantId tenant = 0;
  };
  struct Match {
    std::uint64_t tokens = 0;  ///< that can be loaded beyond `computed`; whole blocks
    bool in_background = false;
  };
  /// May be asked again, with more tokens too; changes nothing that others see. At least one token
  /// of the prompt is left to compute. Nothing is matched when `computed` ends inside a block.
  /// Errors: invalid_argument (an id too long; more computed than there are tokens).
  Result<Match> match(const Prompt& prompt);
  /// The same for a request that has no blocks yet, with the tokens and hashes that it has: engines
  /// ask for the head of their queue in each step until there is room for it.
  /// Errors: not_found (never matched); invalid_argument (more computed than there are tokens).
  Result<Match> match_again(const RequestId& request, std::uint64_t computed);

  /// The engine has given the request `blocks`, from its first token on, of which `loaded_tokens`
  /// behind the computed ones shall be loaded: what match() said, or less, or none.
  /// Errors: not_found (never matched), invalid_argument (more than matched, no whole blocks, too
  /// few blocks, or none where one is to be loaded).
  Status allocate(const RequestId& request, const BlockTables& blocks, std::uint64_t loaded_tokens);

  /// What a step does for a request.
  struct Progress {
    std::uint64_t computed_before = 0;
    std::uint64_t computed_after = 0;
    std::span<const TokenId> new_tokens{};  ///< behind those known: what was generated
    BlockTables new_blocks{};               ///< behind those it has
    /// Of what is saved: how soon it goes on to files and objects, or not at all
    /// (AdmissionOptions::min_priority).
    std::uint8_t priority = kUsualPriority;
    /// What the step computes for it, where that is not from `computed_before` to `computed_after`:
    /// blocks that a window had passed before it began are the engine's no more, and a state is one
    /// of where it ends.
    std::optional<StepOfRequest> step{};
  };
  /// Blocks that are complete after this step, and not held, are to be saved.
  /// Errors: not_found, invalid_argument (more computed than tokens or blocks are known); then
  /// nothing of it is taken.
  Status advance(const RequestId& request, const Progress& progress);

  /// A step of the engine that computes so many tokens begins, as build() is asked for its orders;
  /// one that begins before another has ended waits for it. What is computed in it, also for
  /// requests that are not known here, counts.
  void step_begins(std::uint64_t tokens);
  /// The one that began first has ended; nothing, if none has begun.
  void step_ends();

  /// The orders of the step; every worker gets the same.
  StepOrders build();
  /// Whether build() would order anything now.
  bool has_orders() const;
  /// Errors: invalid_argument (no such worker).
  Status update(const WorkerReport& report);

  /// Its blocks go to others, and what was ordered of it since build() is withdrawn; it may be
  /// matched and allocated again. Errors: not_found; not_ready (a load in the background, which
  /// workers have not received, still writes its blocks).
  Status preempt(const RequestId& request);
  struct Finish {
    bool blocks_stay = false;  ///< until all workers have `sent` it, or `received` what it loads
  };
  /// Exactly once per request. What was ordered of it since build() is withdrawn, but for saves in
  /// the background. Errors: not_found.
  Result<Finish> finish(const RequestId& request);

  /// What an orchestrator knows of a request that was matched and has not finished: of the whole
  /// blocks of its tokens known so far, from `first_token` up to `end_token`.
  struct Hint {
    std::string id{};  ///< the orchestrator's; any bytes
    HintAction action = HintAction::prefetch;
    std::uint64_t first_token = 0;
    std::uint64_t end_token = UINT64_MAX;
    Duration after{0};
    Duration keep{0};
    std::string session{};  ///< whose hint it is; any bytes
  };
  /// Ordered with the next step; workers answer in time. Errors: not_found; invalid_argument (times
  /// below 0 or over kLongestHint, no whole block).
  Status hint(const RequestId& request, const Hint& hint);
  struct AnsweredHint {
    std::string id;
    HintAction action = HintAction::prefetch;
    HintAnswer answer;  ///< of several workers' the least
  };
  /// What became of hints that all workers have answered since the last call.
  std::vector<AnsweredHint> take_answered_hints();

  /// Blocks that all workers hold, or that they hold no more, since the last call.
  std::vector<HeldBlockEvent> take_events();
  bool holds(BlockHash hash) const;

  struct Figures {
    std::uint64_t asked_tokens = 0;    ///< of prompts allocated, beyond what was computed
    std::uint64_t matched_tokens = 0;  ///< of these, loaded
    std::uint64_t saved_blocks = 0;    ///< ordered
    std::uint64_t failed_blocks = 0;   ///< load errors, of all workers
    std::size_t requests = 0;
    /// Requests of which all that was held was loaded, some of it, or none, as that was expected to
    /// be sooner, or as the engine wanted; and those that loaded some to see whether it still is.
    std::uint64_t loaded_all = 0, loaded_some = 0, loaded_none = 0, loaded_to_see = 0;
    std::uint64_t tokens_not_loaded = 0;  ///< that were held: computed anew, in less time
    Duration computing_per_token{0};      ///< as measured; 0: not yet
    std::size_t not_lasting = 0;          ///< blocks held, where lasting ones are reported
  };
  Figures figures() const;

 private:
  class Core;  // scheduler_core.h
  explicit ConnectorScheduler(std::unique_ptr<Core> core);

  std::unique_ptr<Core> core_;
};

}  // namespace towpath::kv
