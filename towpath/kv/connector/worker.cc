#include <algorithm>
#include <utility>

#include <towpath/core/text.h>
#include <towpath/kv/connector/worker.h>

namespace towpath::kv {
namespace {

void wait_until_ended(TransferJob& job) {
  while (!job.ended()) (void)job.wait();
}

bool have_all_ended(const std::vector<TransferJob>& jobs) {
  return std::ranges::all_of(jobs, [](const TransferJob& job) { return job.ended(); });
}

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
    ConnectorWorkerOptions options, LayoutHandle cache, std::unique_ptr<BlockKeeper> keeper) {
  if (options.manager == nullptr || keeper == nullptr || options.holds_per_call == 0)
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
  TOWPATH_TRY(const LayoutInfo info, options.manager->info(cache));
  worker->first_layer_ = info.options.first_layer;
  LayoutOptions same = info.options;
  same.tier = "kept";
  TOWPATH_TRY(worker->memory_, options.manager->register_layout(worker->keeper_->memory(), same));
  return worker;
}

ConnectorWorker::ConnectorWorker(ConnectorWorkerOptions options, LayoutHandle cache,
                                 layout::LayoutConfig config, std::unique_ptr<BlockKeeper> keeper)
    : options_(options), cache_(cache), config_(config), keeper_(std::move(keeper)) {
  report_.worker = options_.rank;
}

ConnectorWorker::~ConnectorWorker() {
  const auto stop = [](Loading& load) {
    load.job.cancel();
    wait_until_ended(load.job);  // its slots may be others' only then
  };
  std::ranges::for_each(loads_, stop);
  for (BackgroundLoad& load : background_loads_) std::ranges::for_each(load.copies, stop);
  if (save_) end_save(*save_);
  end_background_saves();
  (void)options_.manager->unregister_layout(memory_);
}

// A step -----------------------------------------------------------------------------------------

Status ConnectorWorker::start_step(const StepOrders& orders) {
  if (save_)
    return error(Code::not_ready, "a step begins before the last one's saves have ended",
                 "call wait_for_save() at the end of each step");
  if (!orders.settle.empty()) end_background_saves();
  ends_.insert(ends_.end(), orders.ends.begin(), orders.ends.end());
  for (Loading& load : loads_) end_load(load);
  loads_.clear();
  for (const RequestOrder& load : orders.loads) {
    if (load.in_background)
      background_loads_.push_back({load.request, {load.blocks.begin(), load.blocks.end()}, {}});
    else
      load_now(load);
  }
  for (const RequestOrder& save : orders.saves) begin_save(save);
  return {};
}

Status ConnectorWorker::wait_for_layer_load(std::uint64_t layer) {
  if (layer >= config_.num_layers) return no_layer(layer, config_.num_layers);
  for (Loading& load : loads_) {
    const std::uint64_t named = first_layer_ + layer;
    while (!load.job.ended() && !load.job.is_layer_done(named))
      (void)load.job.wait_for_layer(named);
    if (load.job.ended()) end_load(load);
  }
  std::erase_if(loads_, [](const Loading& load) { return load.held.empty(); });
  return {};
}

bool ConnectorWorker::progress() {
  bool more = options_.manager->progress();
  for (BackgroundLoad& load : background_loads_) more = poll(load) || more;
  std::erase_if(background_loads_, [](const BackgroundLoad& load) {
    return load.waiting.empty() && load.copies.empty();
  });
  while (!background_saves_.empty() && have_all_ended(background_saves_.front().copies)) {
    end_save(background_saves_.front());
    background_saves_.pop_front();
  }
  note_ends();
  return keeper_->progress() || more;
}

ConnectorWorker::Finished ConnectorWorker::take_finished() {
  (void)progress();
  return std::exchange(finished_, {});
}

WorkerReport ConnectorWorker::take_report() {
  (void)progress();
  BlockKeeper::News news = keeper_->take_news();
  WorkerReport report = std::exchange(report_, {.worker = options_.rank});
  report.is_first = news.is_anew;
  report.stored.insert(report.stored.end(), news.stored.begin(), news.stored.end());
  report.lost.insert(report.lost.end(), news.lost.begin(), news.lost.end());
  // What was saved may have made room since, and what was lost may have been saved again.
  keep_once(report.stored, [&](BlockHash hash) { return keeper_->has(hash); });
  keep_once(report.lost, [&](BlockHash hash) { return !keeper_->has(hash); });
  return report;
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

void ConnectorWorker::fail(std::uint64_t block, const Status& why) {
  failed_.push_back(block);
  report_.failed_blocks.push_back(block);
  ++figures_.failed_blocks;
  figures_.last_failure = why;
}

/// Holds up to `most` of the blocks, and begins to copy them. Those that fail are done with; those
/// for which there is no slot now stay. How many were taken.
std::size_t ConnectorWorker::hold_some(std::deque<BlockOrder>& waiting, std::size_t most,
                                       std::vector<Loading>& copies) {
  const std::size_t count = std::min(most, waiting.size());
  std::vector<BlockHash> hashes;
  for (std::size_t i = 0; i < count; ++i) hashes.push_back(waiting[i].hash);
  std::vector<Result<BlockRef>> blocks = keeper_->hold(hashes);
  const bool may_wait =
      !copies.empty() || std::ranges::any_of(blocks, [](const auto& one) { return one.ok(); });
  std::vector<BlockOrder> orders, later;
  std::vector<BlockRef> held;
  for (std::size_t i = 0; i < count; ++i) {
    const BlockOrder& order = waiting[i];
    const Status usable = blocks[i].ok() ? check_block(order.block) : blocks[i].status();
    if (usable.ok()) {
      orders.push_back(order);
      held.push_back(*std::move(blocks[i]));
    } else if (usable.code() == Code::exhausted && may_wait) {
      later.push_back(order);
    } else {
      fail(order.block, usable);
      if (!keeper_->has(order.hash)) report_.lost.push_back(order.hash);
    }
  }
  waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(count));
  waiting.insert(waiting.begin(), later.begin(), later.end());
  if (!held.empty()) copy_to_engine(std::move(orders), std::move(held), copies);
  return count - later.size();
}

void ConnectorWorker::copy_to_engine(std::vector<BlockOrder> orders, std::vector<BlockRef> held,
                                     std::vector<Loading>& copies) {
  std::vector<layout::BlockPair> pairs;
  for (std::size_t i = 0; i < orders.size(); ++i)
    pairs.push_back({held[i].slot(), orders[i].block});
  Result<TransferJob> job = options_.manager->copy({.source = memory_,
                                                    .target = cache_,
                                                    .blocks = layout::ranges_of(pairs),
                                                    .layer_by_layer = true});
  if (!job.ok()) {
    for (const BlockOrder& order : orders) fail(order.block, job.status());
    return;
  }
  figures_.loaded_blocks += orders.size();
  copies.push_back({*std::move(job), std::move(held)});
}

void ConnectorWorker::load_now(const RequestOrder& load) {
  std::deque<BlockOrder> waiting(load.blocks.begin(), load.blocks.end());
  while (!waiting.empty()) {
    if (hold_some(waiting, waiting.size(), loads_) > 0) continue;
    // All slots are held by what is being loaded: the first of it makes room.
    wait_until_ended(loads_.front().job);
    end_load(loads_.front());
    loads_.erase(loads_.begin());
  }
}

void ConnectorWorker::end_load(Loading& load) {
  wait_until_ended(load.job);
  for (const layout::BlockRange& range : load.job.not_in_place())
    for (std::uint64_t i = 0; i < range.count; ++i) {
      fail(range.target_first + i, load.job.status());
      --figures_.loaded_blocks;
    }
  load.held.clear();
}

/// True: there is more to do at once.
bool ConnectorWorker::poll(BackgroundLoad& load) {
  for (Loading& copy : load.copies)
    if (copy.job.ended()) end_load(copy);
  std::erase_if(load.copies, [](const Loading& copy) { return copy.held.empty(); });
  const std::size_t taken = hold_some(load.waiting, options_.holds_per_call, load.copies);
  if (load.waiting.empty() && load.copies.empty()) {
    finished_.received.push_back(load.request);
    report_.received.push_back(load.request);
  }
  return taken > 0;
}

// Saves ------------------------------------------------------------------------------------------

void ConnectorWorker::begin_save(const RequestOrder& save) {
  if (!save_) save_ = SaveStep{.layers = std::vector<bool>(config_.num_layers)};
  save_->in_background = save_->in_background || save.in_background;
  save_->requests.insert(save.request);
  for (const BlockOrder& order : save.blocks) {
    if (keeper_->has(order.hash)) {  // no news, and yet an answer is awaited
      report_.stored.push_back(order.hash);
      continue;
    }
    const Status exists = check_block(order.block);
    Result<std::vector<PartialBlock>> slot =
        exists.ok() ? keeper_->room(1) : Result<std::vector<PartialBlock>>(exists);
    if (slot.ok()) {
      save_->blocks.push_back({order, std::move(slot->front())});
      continue;
    }
    unsaved(order.hash, slot.status());
  }
}

Status ConnectorWorker::save_layer(std::uint64_t layer) {
  if (layer >= config_.num_layers) return no_layer(layer, config_.num_layers);
  if (save_) copy_layer(*save_, layer);
  return {};
}

void ConnectorWorker::copy_layer(SaveStep& step, std::uint64_t layer) {
  if (step.layers[layer] || step.blocks.empty()) return;
  step.layers[layer] = true;
  std::vector<layout::BlockPair> pairs;
  for (const Saving& saving : step.blocks)
    pairs.push_back({saving.order.block, saving.slot.slot()});
  std::ranges::sort(pairs, {}, &layout::BlockPair::target);
  Result<TransferJob> job = options_.manager->copy({.source = cache_,
                                                    .target = memory_,
                                                    .blocks = layout::ranges_of(pairs),
                                                    .layers = {first_layer_ + layer, 1}});
  if (job.ok())
    step.copies.push_back(*std::move(job));
  else
    step.refused = job.status();
}

void ConnectorWorker::wait_for_save() {
  if (!save_) return;
  for (std::uint64_t layer = 0; layer < config_.num_layers; ++layer) copy_layer(*save_, layer);
  if (save_->in_background)
    background_saves_.push_back(*std::move(save_));
  else
    end_save(*save_);
  save_.reset();
}

/// Waits, and keeps what is in place in all layers.
void ConnectorWorker::end_save(SaveStep& step) {
  std::set<SlotId> spoiled;
  Status why = step.refused;
  for (TransferJob& job : step.copies) {
    wait_until_ended(job);
    if (!job.status().ok()) why = job.status();
    for (const layout::BlockRange& range : job.not_in_place())
      for (std::uint64_t i = 0; i < range.count; ++i)
        spoiled.insert(static_cast<SlotId>(range.target_first + i));
  }
  const bool is_whole = step.refused.ok() && step.copies.size() == config_.num_layers;
  for (Saving& saving : step.blocks) {
    const bool is_there = is_whole && !spoiled.contains(saving.slot.slot());
    const Status kept = is_there ? keeper_->keep(std::move(saving.slot), saving.order.hash) : why;
    if (is_there && kept.ok()) {
      ++figures_.saved_blocks;  // the keeper tells the news
    } else {
      unsaved(saving.order.hash, kept);
    }
  }
}

void ConnectorWorker::unsaved(BlockHash hash, const Status& why) {
  figures_.last_failure = why;
  ++figures_.unsaved_blocks;
  report_.lost.push_back(hash);
}

void ConnectorWorker::end_background_saves() {
  for (SaveStep& step : background_saves_) end_save(step);
  background_saves_.clear();
}

void ConnectorWorker::note_ends() {
  std::erase_if(ends_, [&](const RequestId& request) {
    const auto has_it = [&](const SaveStep& step) { return step.requests.contains(request); };
    if (std::ranges::any_of(background_saves_, has_it) || (save_ && has_it(*save_))) return false;
    finished_.sent.push_back(request);
    report_.sent.push_back(request);
    return true;
  });
}

}  // namespace towpath::kv
