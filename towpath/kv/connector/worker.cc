#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/kv/connector/worker.h>
#include <towpath/kv/tiers/pace.h>

namespace towpath::kv {
namespace {

constexpr Duration kNap = std::chrono::milliseconds(1);
constexpr std::size_t kStepAtOnce = 1024;  // blocks that a load of the step asks for
constexpr std::uint8_t kStepPriority = 60, kBackgroundPriority = 50;

/// Those for which `is_so` holds, each once.
template <class Holds>
void keep_once(std::vector<BlockHash>& hashes, Holds is_so) {
  std::erase_if(hashes, [&](BlockHash hash) { return !is_so(hash); });
  std::ranges::sort(hashes);
  const auto twice = std::ranges::unique(hashes);
  hashes.erase(twice.begin(), twice.end());
}

Status no_layer(std::uint64_t layer, std::uint64_t layers) {
  return error(Code::out_of_range, cat("layer ", layer, " of ", layers), "layers count from 0");
}

}  // namespace

Result<std::unique_ptr<ConnectorWorker>> ConnectorWorker::make(
    ConnectorWorkerOptions options, blockcopy::LayoutHandle cache,
    std::unique_ptr<TieredKeeper> keeper) {
  if (options.manager == nullptr || keeper == nullptr || options.blocks_at_once == 0)
    return error(Code::invalid_argument, "a connector's worker needs a manager and a keeper",
                 "fill in ConnectorWorkerOptions");
  TOWPATH_TRY(const layout::PhysicalLayout engine, options.manager->local_layout(cache));
  const layout::LayoutConfig& ours = keeper->memory().config();
  const layout::LayoutConfig& theirs = engine.config();
  if (ours.num_layers != theirs.num_layers || ours.outer_dim != theirs.outer_dim ||
      ours.page_size != theirs.page_size || ours.inner_dim != theirs.inner_dim ||
      ours.dtype_width_bytes != theirs.dtype_width_bytes)
    return error(Code::invalid_argument,
                 cat("the engine's cache has ", to_string(theirs), ", the keeper's memory ",
                     to_string(ours)),
                 "make both from one configuration");
  auto worker = std::unique_ptr<ConnectorWorker>(
      new ConnectorWorker(options, cache, theirs, std::move(keeper)));
  TOWPATH_TRY(const blockcopy::LayoutInfo info, options.manager->info(cache));
  worker->first_layer_ = info.options.first_layer;
  blockcopy::LayoutOptions same = info.options;
  same.tier = "kept";
  TOWPATH_TRY(worker->memory_, options.manager->register_layout(worker->keeper_->memory(), same));
  return worker;
}

ConnectorWorker::ConnectorWorker(ConnectorWorkerOptions options, blockcopy::LayoutHandle cache,
                                 layout::LayoutConfig config, std::unique_ptr<TieredKeeper> keeper)
    : options_(options),
      cache_(cache),
      config_(config),
      keeper_(std::move(keeper)),
      copying_(std::make_unique<Pace>()) {
  report_.worker = options_.rank;
}

ConnectorWorker::~ConnectorWorker() {
  for (std::deque<Load>* const loads : {&step_loads_, &background_loads_})
    for (Load& load : *loads)
      for (Copying& copy : load.copies) {
        copy.job.cancel();
        wait_until_ended(copy.job);  // its slots may be others' only then
      }
  if (save_) end_save(*save_);
  end_background_saves();
  (void)options_.manager->unregister_layout(memory_);
}

/// Counts the time until its end.
class ConnectorWorker::Timed {
 public:
  Timed(ConnectorWorker& worker, Duration EngineTime::*what)
      : clock_(worker.options_.clock),
        sum_(worker.figures_.engine_time.*what),
        since_(clock_ != nullptr ? clock_->now() : Instant{0}) {}
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;
  ~Timed() {
    if (clock_ != nullptr) sum_ += clock_->now() - since_;
  }

 private:
  const Clock* const clock_;
  Duration& sum_;
  const Instant since_;
};

bool ConnectorWorker::have_all_ended(const std::vector<blockcopy::TransferJob>& jobs) {
  return std::ranges::all_of(jobs, [](const blockcopy::TransferJob& job) { return job.ended(); });
}

void ConnectorWorker::wait_until_ended(blockcopy::TransferJob& job) {
  while (!job.ended()) (void)job.wait();
}

// A step -----------------------------------------------------------------------------------------

Status ConnectorWorker::start_step(const StepOrders& orders) {
  if (save_)
    return error(Code::not_ready, "a step begins before the last one's saves have ended",
                 "call wait_for_save() at the end of each step");
  const Timed timed(*this, &EngineTime::start_step);
  ++figures_.engine_time.steps;
  if (!std::exchange(has_orders_, true)) report_.first_step = orders.step;
  if (!orders.settle.empty()) settle();
  ends_.insert(ends_.end(), orders.ends.begin(), orders.ends.end());
  for (const HintOrder& hint : orders.hints) keeper_->hint(hint);
  end_step_loads();
  for (const RequestOrder& load : orders.loads)
    (load.in_background ? background_loads_ : step_loads_)
        .push_back({.request = load.request, .waiting = {load.blocks.begin(), load.blocks.end()}});
  (void)(options_.driven ? advance_step_loads() : advance_loads());
  if (orders.saves.empty()) return {};
  save_ = SaveStep{.orders = orders.saves, .layers = std::vector<bool>(config_.num_layers)};
  for (const RequestOrder& save : orders.saves) {
    save_->in_background = save_->in_background || save.in_background;
    save_->requests.insert(save.request);
  }
  return {};
}

/// Of the last step; an engine that did not wait for its layers waits here.
void ConnectorWorker::end_step_loads() {
  bring_step_loads();
  end_step_copies();
  step_loads_.clear();
}

void ConnectorWorker::end_step_copies() {
  for (Load& load : step_loads_) {
    for (Copying& copy : load.copies) end(load, copy);
    load.copies.clear();
  }
}

Status ConnectorWorker::wait_for_layer_load(std::uint64_t layer) {
  if (layer >= config_.num_layers) return no_layer(layer, config_.num_layers);
  const Timed timed(*this, &EngineTime::wait_for_layer);
  bring_step_loads();
  const std::uint64_t named = first_layer_ + layer;
  for (Load& load : step_loads_) {
    for (Copying& copy : load.copies)
      while (!copy.job.ended() && !copy.job.is_layer_done(named))
        (void)copy.job.wait_for_layer(named);
    (void)end_copies(load);
  }
  return {};
}

Status ConnectorWorker::save_layer(std::uint64_t layer) {
  if (layer >= config_.num_layers) return no_layer(layer, config_.num_layers);
  const Timed timed(*this, &EngineTime::save_layer);
  if (!save_) return {};
  begin_saves();
  copy_layers(*save_, {layer, 1});
  return {};
}

void ConnectorWorker::wait_for_save() {
  const Timed timed(*this, &EngineTime::wait_for_save);
  if (!save_) return;
  begin_saves();
  if (std::ranges::none_of(save_->layers, std::identity()))
    copy_layers(*save_, {0, config_.num_layers});
  for (std::uint64_t layer = 0; layer < config_.num_layers; ++layer)
    copy_layers(*save_, {layer, 1});
  end_step_copies();
  refuse_if_spoiled();
  if (save_->in_background)
    background_saves_.push_back(*std::move(save_));
  else
    end_save(*save_);
  save_.reset();
}

bool ConnectorWorker::progress() {
  const bool moved = keeper_->progress();
  note_hints();
  const bool more = drive();
  note_ends();
  return more || moved;
}

void ConnectorWorker::note_hints() {
  for (HintAnswer& answer : keeper_->take_hint_answers())
    report_.hints.push_back(std::move(answer));
}

bool ConnectorWorker::is_idle() const {
  const auto moves = [](const Load& load) { return load.is_coming() || !load.copies.empty(); };
  return background_loads_.empty() && background_saves_.empty() && !keeper_->has_hints() &&
         std::ranges::none_of(step_loads_, moves);
}

bool ConnectorWorker::has_news() const {
  return !finished_.sent.empty() || !finished_.received.empty() || !failed_.empty() ||
         !report_.says_nothing();
}

/// What does not depend on where in a step the engine is.
bool ConnectorWorker::drive() {
  bool more = options_.manager->progress();
  more = advance_loads() || more;
  std::erase_if(background_loads_, [&](const Load& load) {
    if (load.is_coming() || !load.copies.empty()) return false;
    finished_.received.push_back(load.request);
    if (load.has_failed) finished_.failed.push_back(load.request);
    report_.received.push_back(load.request);
    return true;
  });
  while (!background_saves_.empty() && have_all_ended(background_saves_.front().copies)) {
    end_save(background_saves_.front());
    background_saves_.pop_front();
  }
  return more;
}

ConnectorWorker::Finished ConnectorWorker::take_finished() {
  const Timed timed(*this, &EngineTime::take);
  (void)drive();
  return finished_so_far();
}

ConnectorWorker::Finished ConnectorWorker::finished_so_far() {
  note_ends();
  return std::exchange(finished_, {});
}

WorkerReport ConnectorWorker::take_report() {
  const Timed timed(*this, &EngineTime::take);
  (void)drive();
  return report_so_far();
}

WorkerReport ConnectorWorker::report_so_far() {
  note_ends();
  TieredKeeper::News news = keeper_->take_news();
  note_hints();
  WorkerReport report = std::exchange(report_, {.worker = options_.rank});
  report.is_first = news.is_anew;
  report.goes_on = news.goes_on;
  report.more_follows = news.more_follows;
  report.stored.insert(report.stored.end(), news.stored.begin(), news.stored.end());
  report.lost.insert(report.lost.end(), news.lost.begin(), news.lost.end());
  // Of what was saved the scheduler awaits an answer, also where it has made room since; and what
  // was lost may have been saved again.
  std::ranges::copy_if(report.stored, std::back_inserter(report.lost),
                       [&](BlockHash hash) { return !keeper_->has(hash); });
  keep_once(report.stored, [&](BlockHash hash) { return keeper_->has(hash); });
  keep_once(report.lost, [&](BlockHash hash) { return !keeper_->has(hash); });
  for (const BlockHash hash : report.stored) report.tiers.push_back(keeper_->tier_of(hash));
  if (std::ranges::all_of(report.tiers, [](TierIndex tier) { return tier == 0; }))
    report.tiers.clear();
  for (const BlockHash hash : report.stored)
    if (keeper_->outlives_this(hash)) report.lasting.push_back(hash);
  report.costs = changed_costs();
  return report;
}

/// By so much that it matters.
std::vector<TierCost> ConnectorWorker::changed_costs() {
  std::vector<TierCost> costs = keeper_->costs();
  if (options_.clock != nullptr) costs.push_back({0, copying_->per_block()});
  std::erase_if(costs, [&](const TierCost& cost) {
    Duration& before = costs_[cost.tier];
    const Duration by = cost.per_block > before ? cost.per_block - before : before - cost.per_block;
    if (by <= before / 8) return true;
    before = cost.per_block;
    return false;
  });
  return costs;
}

Status ConnectorWorker::sync() {
  end_background_saves();
  return keeper_->sync();
}

// Loads ------------------------------------------------------------------------------------------

Status ConnectorWorker::check_block(std::uint64_t block) const {
  if (block < config_.num_blocks) return {};
  return error(Code::out_of_range,
               cat("block ", block, " of the engine's cache of ", config_.num_blocks),
               "the engine's blocks count from 0");
}

void ConnectorWorker::fail(Load& load, std::uint64_t block, const Status& why) {
  load.has_failed = true;
  failed_.push_back(block);
  report_.failed_blocks.push_back(block);
  ++figures_.failed_blocks;
  figures_.last_failure = why;
}

void ConnectorWorker::lose(Load& load, const BlockOrder& order, const Status& why) {
  ++settled_;
  fail(load, order.block, why);
  if (!keeper_->has(order.hash)) report_.lost.push_back(order.hash);
}

void ConnectorWorker::bring_step_loads() {
  while (std::ranges::any_of(step_loads_, &Load::is_coming)) {
    const bool moved = keeper_->progress();
    if (drive() || moved) continue;
    const bool awaits_keeper =
        std::ranges::any_of(step_loads_, [](const Load& load) { return load.coming != nullptr; });
    if (awaits_keeper)
      keeper_->wait_for_work(kNap);
    else
      options_.manager->wait_for_work(kNap);
  }
}

bool ConnectorWorker::advance_step_loads() {
  bool moved = false;
  for (Load& load : step_loads_) moved = advance(load, {kStepAtOnce, kStepPriority}) || moved;
  return moved;
}

/// Those of the step first: the keeper's room is theirs. True: something has moved.
bool ConnectorWorker::advance_loads() {
  bool moved = advance_step_loads();
  for (Load& load : background_loads_)
    moved = advance(load, {options_.blocks_at_once, kBackgroundPriority}) || moved;
  return moved;
}

/// As far as it goes now. True: something has moved.
bool ConnectorWorker::advance(Load& load, const Urgency& urgency) {
  const bool ended = end_copies(load);
  const bool came = take_came(load);
  if (load.coming || !load.is_coming()) return ended || came;
  if (load.refused.empty() || load.asked_at != settled_) {
    ask(load, urgency);
    return true;
  }
  if (may_make_room(load)) return ended || came;
  for (const BlockOrder& order : std::exchange(load.refused, {}))
    lose(load, order, load.why_refused);
  return true;
}

/// Whether something is under way that holds slots, or may, until it ends. The step's saves end
/// only after its own loads.
bool ConnectorWorker::may_make_room(const Load& load) const {
  const auto holds = [](const Load& other) { return other.coming || !other.copies.empty(); };
  const bool is_of_step =
      std::ranges::any_of(step_loads_, [&](const Load& other) { return &other == &load; });
  return (save_ && !is_of_step) || !background_saves_.empty() ||
         std::ranges::any_of(step_loads_, holds) || std::ranges::any_of(background_loads_, holds);
}

/// What was refused is asked for again, and then what has waited longest.
void ConnectorWorker::ask(Load& load, const Urgency& urgency) {
  load.asked = std::exchange(load.refused, {});
  for (; load.asked.size() < urgency.blocks_at_once && !load.waiting.empty();
       load.waiting.pop_front()) {
    const BlockOrder& order = load.waiting.front();
    if (const Status exists = check_block(order.block); exists.ok())
      load.asked.push_back(order);
    else
      lose(load, order, exists);
  }
  std::vector<CachedBlock> blocks;
  for (const BlockOrder& order : load.asked) blocks.push_back({order.hash, order.parent});
  load.asked_at = settled_;
  load.coming = keeper_->bring(blocks, urgency.priority);
  (void)take_came(load);  // what is in memory
}

/// True: something did, or cannot.
bool ConnectorWorker::take_came(Load& load) {
  if (!load.coming) return false;
  std::vector<BlockOrder> orders;
  std::vector<BlockRef> held;
  std::vector<ComingBlocks::Came> all = load.coming->take();
  for (ComingBlocks::Came& came : all) {
    const BlockOrder& order = load.asked[came.index];
    if (came.status.ok()) {
      ++settled_;
      orders.push_back(order);
      held.push_back(std::move(came.block));
    } else if (came.status.code() == Code::exhausted) {
      load.refused.push_back(order);
      load.why_refused = std::move(came.status);
    } else {
      lose(load, order, came.status);
    }
  }
  if (load.coming->left() == 0) load.coming.reset();
  if (!held.empty()) copy_to_engine(load, orders, std::move(held));
  return !all.empty();
}

void ConnectorWorker::copy_to_engine(Load& load, const std::vector<BlockOrder>& orders,
                                     std::vector<BlockRef> held) {
  std::vector<layout::BlockPair> pairs;
  for (std::size_t i = 0; i < orders.size(); ++i)
    pairs.push_back({held[i].slot(), orders[i].block});
  Result<blockcopy::TransferJob> job = options_.manager->copy({.source = memory_,
                                                               .target = cache_,
                                                               .blocks = layout::ranges_of(pairs),
                                                               .layer_by_layer = true});
  if (!job.ok()) {
    for (const BlockOrder& order : orders) fail(load, order.block, job.status());
    return;
  }
  figures_.loaded_blocks += orders.size();
  copying_->begins(orders.size(), now());
  load.copies.push_back({*std::move(job), std::move(held)});
}

/// True: some did.
bool ConnectorWorker::end_copies(Load& load) {
  return std::erase_if(load.copies, [&](Copying& copy) {
           if (!copy.job.ended()) return false;
           end(load, copy);
           return true;
         }) > 0;
}

void ConnectorWorker::end(Load& load, Copying& copy) {
  wait_until_ended(copy.job);
  std::uint64_t in_place = copy.held.size();
  for (const layout::BlockRange& range : copy.job.not_in_place())
    for (std::uint64_t i = 0; i < range.count; ++i) {
      fail(load, range.target_first + i, copy.job.status());
      --figures_.loaded_blocks;
      --in_place;
    }
  copying_->ends(copy.held.size(), in_place, now());
  copy.held.clear();
  ++settled_;
}

}  // namespace towpath::kv
