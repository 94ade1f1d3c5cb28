// ConnectorWorker: the half of an engine's KV connector that sits with a rank of the model. It
// brings kept blocks into the engine's cache and keeps what the engine has computed, as the
// scheduler's half orders.
//
//   start_step(orders)                          what is loaded for the step begins
//   for each layer:  wait_for_layer_load(l)     ... attention ...     save_layer(l)
//   wait_for_save()
//   take_finished(), take_failed_blocks()       for the engine
//   take_report()                               for ConnectorScheduler::update()
//
// Bytes go by a TransferManager, so the engine's cache may lie in the memory of any device that it
// knows. No byte is copied to the engine before the whole block has been proven; a block that
// cannot be proven, or read, is a failed block, and no other is.
// Loads do not wait for each other: one whose blocks are slow to come, or do not, keeps only the
// step that it belongs to. For a block without a slot a load waits while others may let go of one.
// It has no thread: what is in the background moves while somebody calls in here.
// Thread: loop, that of the manager.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <towpath/blockcopy/transfer_manager.h>
#include <towpath/kv/connector/orders.h>
#include <towpath/kv/connector/tiered_keeper.h>

namespace towpath::kv {

class Pace;

struct ConnectorWorkerOptions {
  blockcopy::TransferManager* manager = nullptr;  ///< outlives the worker
  std::uint32_t rank = 0;                         ///< the number in reports
  std::size_t blocks_at_once = 16;  ///< asked of the keeper by a load in the background
  const Clock* clock = nullptr;     ///< outlives the worker; null: no time is measured
  /// Another thread than the engine's calls progress(): what loads in the background begins there.
  bool driven = false;
};

class ConnectorWorker {
 public:
  /// `cache` is the engine's, registered with the manager, with the same layers, outers, tokens and
  /// heads as the keeper's memory. Errors: invalid_argument (it has others; no manager), not_found.
  static Result<std::unique_ptr<ConnectorWorker>> make(ConnectorWorkerOptions options,
                                                       blockcopy::LayoutHandle cache,
                                                       std::unique_ptr<TieredKeeper> keeper);
  /// Waits for saves that are under way; loads are cancelled.
  ~ConnectorWorker();
  ConnectorWorker(const ConnectorWorker&) = delete;
  ConnectorWorker& operator=(const ConnectorWorker&) = delete;

  /// What the step loads begins to be brought, and what is in memory, to be copied; this waits for
  /// neither. Blocks that fail are reported by take_failed_blocks() when the layers have been
  /// waited for, and nothing of such a step is saved. Errors: not_ready (the last step's
  /// wait_for_save() is missing).
  Status start_step(const StepOrders& orders);
  /// All of the layer is in place, but for failed blocks. The first layer waits until all blocks of
  /// the step were brought and proven, since a block is proven whole. Errors: out_of_range.
  Status wait_for_layer_load(std::uint64_t layer);
  /// The layer of the blocks to be saved has been computed. Errors: out_of_range.
  Status save_layer(std::uint64_t layer);
  /// Layers that were not saved are saved now, in one copy where that is all of them. Returns when
  /// the engine may overwrite its blocks, but for those that the scheduler saves in the background.
  /// What could not be saved is reported by the report.
  void wait_for_save();
  /// Waits for the copies of all saves that go on behind their step: the engine may overwrite any
  /// block. They are digested and kept with the next progress.
  void settle();

  /// What is in the background goes on, the keeper's work with it: for engines that drive it by
  /// hand. True: there is more to do at once.
  bool progress();

  /// Nothing is under way that progress() would move.
  bool is_idle() const;
  /// What is below gives something.
  bool has_news() const;

  struct Finished {
    std::vector<RequestId> sent;      ///< ended requests whose blocks are read no more
    std::vector<RequestId> received;  ///< background loads that ended, failed blocks or not
    /// Of those received, that lack a block: for an engine that computes such a request from the
    /// start.
    std::vector<RequestId> failed;
  };
  /// Loads and saves go on; the keeper writes and reads nothing in here.
  Finished take_finished();
  /// The same without progress(), for an engine whose other thread makes it: returns at once.
  Finished finished_so_far();
  /// The engine's blocks that a load was ordered into and that do not hold it.
  std::vector<std::uint64_t> take_failed_blocks() { return std::exchange(failed_, {}); }
  /// Says the same as the two above, and what is held since the last one.
  WorkerReport take_report();
  WorkerReport report_so_far();  ///< the same without progress

  /// What was saved so far survives this process. Errors: the keeper's.
  Status sync();
  const TieredKeeper& keeper() const { return *keeper_; }

  /// How long the engine, or the driver in its place, was in here.
  struct EngineTime {
    Duration start_step{0}, wait_for_layer{0}, save_layer{0}, wait_for_save{0}, take{0};
    std::uint64_t steps = 0;

    Duration all() const { return start_step + wait_for_layer + save_layer + wait_for_save + take; }
  };
  struct Figures {
    EngineTime engine_time;  ///< where there is a clock
    std::uint64_t loaded_blocks = 0;
    std::uint64_t failed_blocks = 0;
    std::uint64_t saved_blocks = 0;
    std::uint64_t unsaved_blocks = 0;  ///< for want of room, or since the copy failed
    Status last_failure;
  };
  const Figures& figures() const { return figures_; }

 private:
  struct Copying {
    blockcopy::TransferJob job;
    std::vector<BlockRef> held;
  };
  /// Blocks of one request: they wait, come to memory, and are copied to the engine.
  struct Load {
    RequestId request;
    std::deque<BlockOrder> waiting;
    std::vector<BlockOrder> asked{};  // `coming` counts in them
    std::unique_ptr<ComingBlocks> coming{};
    std::vector<BlockOrder> refused{};  // there was no slot, or no room to wait
    Status why_refused{};
    std::uint64_t asked_at{0};  // what was settled_ then
    std::vector<Copying> copies{};
    bool has_failed = false;  // a block of it is not in the engine's cache

    bool is_coming() const { return coming || !waiting.empty() || !refused.empty(); }
  };
  struct Urgency {
    std::size_t blocks_at_once;
    std::uint8_t priority;
  };
  struct Saving {
    BlockOrder order;
    PartialBlock slot;
    std::uint8_t priority;
    TenantId tenant;
  };
  struct SaveStep {
    bool in_background = false;
    std::set<RequestId> requests;
    std::vector<RequestOrder> orders;  // whose blocks have no slots yet: what is loaded comes first
    std::vector<Saving> blocks;
    std::vector<blockcopy::TransferJob> copies;
    std::vector<bool> layers;  // begun
    Status refused;            // why a layer's copy could not begin
  };

  ConnectorWorker(ConnectorWorkerOptions options, blockcopy::LayoutHandle cache,
                  layout::LayoutConfig config, std::unique_ptr<TieredKeeper> keeper);

  class Timed;
  static bool have_all_ended(const std::vector<blockcopy::TransferJob>& jobs);
  static void wait_until_ended(blockcopy::TransferJob& job);
  bool drive();
  bool advance_step_loads();
  bool advance_loads();
  bool advance(Load& load, const Urgency& urgency);
  bool end_copies(Load& load);
  bool take_came(Load& load);
  void ask(Load& load, const Urgency& urgency);
  void copy_to_engine(Load& load, const std::vector<BlockOrder>& orders,
                      std::vector<BlockRef> held);
  void bring_step_loads();
  void end_step_loads();
  bool may_make_room(const Load& load) const;
  void end(Load& load, Copying& copy);
  void end_step_copies();
  void lose(Load& load, const BlockOrder& order, const Status& why);
  void fail(Load& load, std::uint64_t block, const Status& why);
  Status check_block(std::uint64_t block) const;

  void begin_saves();
  void begin_save(const RequestOrder& save);
  void refuse_if_spoiled();
  void copy_layers(SaveStep& step, layout::LayerRange layers);
  void end_save(SaveStep& step);
  void end_background_saves();
  void unsaved(BlockHash hash, const Status& why);
  void note_ends();
  void note_hints();
  Instant now() const { return options_.clock != nullptr ? options_.clock->now() : Instant{0}; }
  std::vector<TierCost> changed_costs();

  const ConnectorWorkerOptions options_;
  const blockcopy::LayoutHandle cache_;
  const layout::LayoutConfig config_;  // of the engine's cache
  std::unique_ptr<TieredKeeper> keeper_;
  blockcopy::LayoutHandle memory_;  // the keeper's
  std::uint64_t first_layer_ = 0;
  std::deque<Load> step_loads_;
  std::deque<Load> background_loads_;
  std::uint64_t settled_ = 0;  // blocks that came or failed, copies and saves that ended
  std::optional<SaveStep> save_;
  std::deque<SaveStep> background_saves_;
  std::vector<RequestId> ends_;
  Finished finished_;
  std::vector<std::uint64_t> failed_;
  WorkerReport report_;
  bool has_orders_ = false;              // of a step, the first of its life
  std::unique_ptr<Pace> copying_;        // to the engine
  std::map<TierIndex, Duration> costs_;  // that were reported
  Figures figures_;
};

}  // namespace towpath::kv
