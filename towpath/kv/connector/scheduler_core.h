// What a ConnectorScheduler knows, and does. Its own affair. Thread: loop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <towpath/kv/connector/held_blocks.h>
#include <towpath/kv/connector/load_or_compute.h>
#include <towpath/kv/connector/scheduler.h>
#include <towpath/kv/connector/token_news.h>

namespace towpath::kv {

/// The functions that ConnectorScheduler has too are as there.
class ConnectorScheduler::Core {
 public:
  explicit Core(ConnectorSchedulerOptions options)
      : options_(std::move(options)), held_(options_.workers) {}

  Result<Match> match(const Prompt& prompt);
  Result<Match> match_again(const RequestId& request, std::uint64_t computed);
  Status allocate(const RequestId& request, const BlockTables& blocks, std::uint64_t loaded_tokens);
  Status advance(const RequestId& request, const Progress& progress);
  void step_begins(std::uint64_t tokens);
  void step_ends();
  StepOrders build();
  bool has_orders() const { return !next_.empty(); }
  Status update(const WorkerReport& report);
  Status preempt(const RequestId& request);
  Result<Finish> finish(const RequestId& request);
  Status hint(const RequestId& request, const Hint& hint);
  std::vector<AnsweredHint> take_answered_hints() { return std::exchange(answered_hints_, {}); }
  std::vector<HeldBlockEvent> take_events();
  bool holds(BlockHash hash) const { return held_.has(hash); }
  Figures figures() const;

 private:
  using Table = std::vector<std::uint64_t>;
  struct Request {
    std::vector<TokenId> tokens;
    BlockHash last = 0;             // of the last whole block, or the root
    std::vector<BlockHash> hashes;  // of the whole blocks
    std::string room;
    TenantId tenant = 0;
    std::uint64_t computed = 0;  // when it was matched
    std::uint64_t matched = 0;
    std::uint64_t held_blocks = 0;  // behind the computed ones, of which `matched` was chosen
    LoadOrCompute::Answer choice{};
    TierCounts loads{};              // in the background, by where they were
    std::vector<Table> tables;       // by group; none: nothing is allocated
    std::uint64_t loading = 0;       // workers that have not received what was built, a bit each
    std::uint64_t loading_step = 0;  // of the orders that say so
    bool saves = false;              // something of it was ordered to be saved in the background
  };

  Result<Request*> find(const RequestId& request);
  Request begin(const Prompt& prompt) const;
  Result<Match> match_behind(Request& request, const RequestId& id, std::uint64_t computed);
  void extend_by(Request& request, std::span<const TokenId> tokens) const;
  /// Blocks [first, end) of the request, those that are held or being saved.
  void name_blocks(const Request& request, std::uint64_t first, std::uint64_t end);
  struct Blocks {
    std::uint64_t first, end;
  };
  /// Blocks that could be loaded, and behind which of them all groups can go on.
  struct Held {
    std::vector<TierIndex> tiers;
    std::vector<bool> may_end;
  };
  /// Of these blocks, the first that a group needs to go on behind them.
  std::uint64_t first_needed(std::size_t group, const Blocks& blocks) const {
    return std::max(blocks.first,
                    options_.groups[group].first_needed(blocks.end, options_.tokens_per_block));
  }
  Held held_of(const Request& request, const Blocks& blocks) const;
  BlockHash name_in(std::size_t group, BlockHash hash) const;
  std::optional<BlockHash> parent_in(std::size_t group, const Request& request,
                                     std::uint64_t block) const;
  bool is_null(std::uint64_t block) const { return block == options_.null_block; }
  Status check_tables(const RequestId& id, const Request& request, const BlockTables& tables,
                      std::uint64_t loaded_tokens) const;
  Status check_progress(const RequestId& id, const Request& request,
                        const Progress& progress) const;
  void order_saves(const Request& request, const Progress& progress, RequestOrder& into);
  void choose(Request& request, const Blocks& blocks);
  void note_choice(const Request& request, std::uint64_t loaded);
  void withdraw(const RequestId& id, bool with_background_saves);
  void end_loads(Request& request);
  void note_received(Request& request, std::uint32_t worker);
  void forget_loads_before(std::uint64_t step, std::uint32_t worker);
  void note_answer(BlockHash hash, bool is_last);
  void begin_anew(const WorkerReport& report);
  void end_anew(const WorkerReport& report);
  void note_hint(const HintAnswer& answer);
  void forget_hints();

  const ConnectorSchedulerOptions options_;
  HeldBlocks held_;
  TokenNews news_;
  std::map<RequestId, Request> requests_;
  std::unordered_map<BlockHash, std::uint32_t> saving_;  // answers that are still to come
  std::uint64_t anew_ = 0;  // workers that report from the start, and more follows; a bit each
  StepOrders next_;
  struct Step {
    std::uint64_t tokens;
    Instant since;
  };
  std::deque<Step> steps_;  // that have not ended
  struct AskedHint {
    AnsweredHint least;
    std::uint32_t answers = 0;
  };
  std::map<std::uint64_t, AskedHint> asked_hints_;  // by number; that workers have to answer
  std::uint64_t next_hint_ = 0;
  std::vector<AnsweredHint> answered_hints_;
  LoadOrCompute costs_;
  TierCounts loading_{};       // ordered, and not received
  TierCounts next_loading_{};  // with the next step, which waits for them
  Figures figures_;
};

}  // namespace towpath::kv
