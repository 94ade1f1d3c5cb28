// What a ConnectorScheduler does around an engine's steps.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/kv/connector/scheduler_core.h>

namespace towpath::kv {

void ConnectorScheduler::Core::step_begins(std::uint64_t tokens) {
  constexpr std::size_t kMost = 64;  // an engine that never says that they end
  if (options_.clock == nullptr) return;
  if (steps_.size() == kMost) steps_.pop_front();
  steps_.push_back({tokens, options_.clock->now()});
}

void ConnectorScheduler::Core::step_ends() {
  if (steps_.empty()) return;
  const Step step = steps_.front();
  steps_.pop_front();
  const Instant now = options_.clock->now();
  costs_.note_step(step.tokens, now - step.since);
  if (!steps_.empty()) steps_.front().since = std::max(steps_.front().since, now);
}

StepOrders ConnectorScheduler::Core::build() {
  next_loading_ = {};
  StepOrders orders = std::exchange(next_, {});
  next_.step = orders.step + 1;
  for (const RequestOrder& load : orders.loads)
    if (const auto known = requests_.find(load.request);
        load.in_background && known != requests_.end()) {
      known->second.loading = ~std::uint64_t{0} >> (kMaxConnectorWorkers - options_.workers);
      known->second.loading_step = orders.step;
    }
  return orders;
}

/// A worker has answered for a hash that was ordered to be saved.
void ConnectorScheduler::Core::note_answer(BlockHash hash, bool is_last) {
  const auto known = saving_.find(hash);
  if (known == saving_.end()) return;
  if (is_last || --known->second == 0) saving_.erase(known);
}

void ConnectorScheduler::Core::note_received(Request& request, std::uint32_t worker) {
  const std::uint64_t its = std::uint64_t{1} << worker;
  if ((request.loading & its) == 0) return;
  request.loading &= ~its;
  if (request.loading == 0) end_loads(request);
}

/// They were sent to an earlier life of the worker. That it begins anew is not enough to know it:
/// what was built lately may have come to this one.
void ConnectorScheduler::Core::forget_loads_before(std::uint64_t step, std::uint32_t worker) {
  for (auto& [id, request] : requests_)
    if (request.loading_step < step) note_received(request, worker);
}

void ConnectorScheduler::Core::end_loads(Request& request) {
  const TierCounts ended = std::exchange(request.loads, {});
  for (std::size_t tier = 0; tier < kMaxTiers; ++tier) loading_[tier] -= ended[tier];
}

void ConnectorScheduler::Core::begin_anew(const WorkerReport& report) {
  anew_ |= std::uint64_t{1} << report.worker;
  held_.doubt(report.worker);
  if (report.goes_on) return;
  held_.forget_doubted(report.worker);
  saving_.clear();  // it will not answer for its earlier life; saved twice does no harm
  forget_hints();
}

/// Tokens are kept until all that begin anew have named their blocks.
void ConnectorScheduler::Core::end_anew(const WorkerReport& report) {
  const std::uint64_t its = std::uint64_t{1} << report.worker;
  if (report.more_follows || (anew_ & its) == 0) return;
  anew_ &= ~its;
  held_.forget_doubted(report.worker);
  if (anew_ != 0) return;
  news_.forget_unless([&](BlockHash hash) { return held_.has(hash) || saving_.contains(hash); });
}

Status ConnectorScheduler::Core::update(const WorkerReport& report) {
  if (report.worker >= options_.workers)
    return error(Code::invalid_argument,
                 cat("a report of worker ", report.worker, " of ", options_.workers),
                 "workers count from 0");
  if (report.is_first) begin_anew(report);
  if (report.first_step) forget_loads_before(*report.first_step, report.worker);
  for (const BlockHash hash : report.lost) {
    held_.remove(hash, report.worker);
    note_answer(hash, true);
    news_.forget(hash);
  }
  const std::unordered_set<BlockHash> lasting =
      options_.lasting_events
          ? std::unordered_set<BlockHash>(report.lasting.begin(), report.lasting.end())
          : std::unordered_set<BlockHash>();
  for (std::size_t i = 0; i < report.stored.size(); ++i) {
    held_.add(report.stored[i], report.worker,
              i < report.tiers.size() ? report.tiers[i] : TierIndex{0},
              lasting.contains(report.stored[i]));
    note_answer(report.stored[i], false);
  }
  for (const TierCost& cost : report.costs) costs_.note_cost(report.worker, cost);
  for (const HintAnswer& answer : report.hints) note_hint(answer);
  end_anew(report);
  for (const RequestId& id : report.received)
    if (const auto known = requests_.find(id); known != requests_.end())
      note_received(known->second, report.worker);
  figures_.failed_blocks += report.failed_blocks.size();
  return {};
}

std::vector<HeldBlockEvent> ConnectorScheduler::Core::take_events() {
  const std::vector<HeldBlocks::Event> events = held_.take_events();
  if (options_.events_with_tokens) return news_.take(events, held_);
  std::vector<HeldBlockEvent> all;
  all.reserve(events.size());
  for (const HeldBlocks::Event& event : events)
    all.push_back({.kind = event.kind, .hash = event.hash, .is_lasting = event.is_lasting});
  return all;
}

ConnectorScheduler::Figures ConnectorScheduler::Core::figures() const {
  Figures all = figures_;
  all.requests = requests_.size();
  all.computing_per_token = costs_.computing_per_token();
  if (options_.lasting_events) all.not_lasting = held_.not_lasting();
  return all;
}

}  // namespace towpath::kv
