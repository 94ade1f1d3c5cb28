// What a ConnectorWorker keeps of the engine's blocks.
#include <algorithm>
#include <functional>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/kv/connector/worker.h>

namespace towpath::kv {

/// Slots are taken when the first layer is saved: by then what the step loads has come.
void ConnectorWorker::begin_saves() {
  if (save_->orders.empty()) return;
  bring_step_loads();  // of an engine that did not wait for its layers
  for (const RequestOrder& save : std::exchange(save_->orders, {})) begin_save(save);
  refuse_if_spoiled();
}

/// Where the step computes upon blocks that are not in place, what comes of it has the name of
/// something else. That a copy fails may be known only when all of them have ended.
void ConnectorWorker::refuse_if_spoiled() {
  if (std::ranges::none_of(step_loads_, &Load::has_failed)) return;
  const Status why = error(Code::corrupt, "it is computed in a step whose loads have failed",
                           "it is saved when the engine has computed it again");
  for (blockcopy::TransferJob& job : save_->copies)
    wait_until_ended(job);  // into slots that are let go
  save_->copies.clear();
  for (const Saving& saving : std::exchange(save_->blocks, {})) unsaved(saving.order.hash, why);
}

void ConnectorWorker::begin_save(const RequestOrder& save) {
  for (const BlockOrder& order : save.blocks) {
    if (keeper_->has(order.hash)) {  // no news, and yet an answer is awaited
      report_.stored.push_back(order.hash);
      continue;
    }
    const Status exists = check_block(order.block);
    Result<std::vector<PartialBlock>> slot =
        exists.ok() ? keeper_->room(1, save.tenant) : Result<std::vector<PartialBlock>>(exists);
    if (slot.ok()) {
      save_->blocks.push_back({order, std::move(slot->front()), save.priority, save.tenant});
      continue;
    }
    unsaved(order.hash, slot.status());
  }
}

/// Those that have not begun: none, or all of them.
void ConnectorWorker::copy_layers(SaveStep& step, layout::LayerRange layers) {
  if (step.layers[layers.first] || step.blocks.empty()) return;
  for (std::uint64_t i = 0; i < layers.count; ++i) step.layers[layers.first + i] = true;
  std::vector<layout::BlockPair> pairs;
  for (const Saving& saving : step.blocks)
    pairs.push_back({saving.order.block, saving.slot.slot()});
  std::ranges::sort(pairs, {}, &layout::BlockPair::target);
  Result<blockcopy::TransferJob> job =
      options_.manager->copy({.source = cache_,
                              .target = memory_,
                              .blocks = layout::ranges_of(pairs),
                              .layers = {first_layer_ + layers.first, layers.count}});
  if (job.ok())
    step.copies.push_back(*std::move(job));
  else
    step.refused = job.status();
}

/// Waits, and keeps what is in place in all layers.
void ConnectorWorker::end_save(SaveStep& step) {
  ++settled_;
  std::set<SlotId> spoiled;
  Status why = step.refused;
  for (blockcopy::TransferJob& job : step.copies) {
    wait_until_ended(job);
    if (!job.status().ok()) why = job.status();
    for (const layout::BlockRange& range : job.not_in_place())
      for (std::uint64_t i = 0; i < range.count; ++i)
        spoiled.insert(static_cast<SlotId>(range.target_first + i));
  }
  const bool is_whole = step.refused.ok() && std::ranges::all_of(step.layers, std::identity());
  for (Saving& saving : step.blocks) {
    const bool is_there = is_whole && !spoiled.contains(saving.slot.slot());
    const Status kept =
        is_there ? keeper_->keep(std::move(saving.slot), {saving.order.hash, saving.priority,
                                                          saving.tenant, saving.order.parent})
                 : why;
    if (is_there && kept.ok()) {
      ++figures_.saved_blocks;
      report_.stored.push_back(saving.order.hash);  // the keeper may lose count of its news
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

void ConnectorWorker::settle() {
  for (SaveStep& step : background_saves_)
    for (blockcopy::TransferJob& job : step.copies) wait_until_ended(job);
}

void ConnectorWorker::end_background_saves() {
  for (SaveStep& step : background_saves_) end_save(step);
  background_saves_.clear();
}

void ConnectorWorker::note_ends() {
  std::erase_if(ends_, [&](const RequestId& request) {
    const auto reads_it = [&](const SaveStep& step) {
      return step.requests.contains(request) && !have_all_ended(step.copies);
    };
    if (std::ranges::any_of(background_saves_, reads_it) ||
        (save_ && save_->requests.contains(request)))
      return false;
    finished_.sent.push_back(request);
    report_.sent.push_back(request);
    return true;
  });
}

}  // namespace towpath::kv
