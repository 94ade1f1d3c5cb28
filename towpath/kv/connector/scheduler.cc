#include <algorithm>
#include <bit>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/kv/connector/scheduler_core.h>

namespace towpath::kv {

Result<ConnectorScheduler> ConnectorScheduler::make(ConnectorSchedulerOptions options) {
  if (options.tokens_per_block == 0 || options.workers == 0 ||
      options.workers > kMaxConnectorWorkers)
    return error(
        Code::invalid_argument,
        cat("a connector of ", options.workers, " workers and blocks of ", options.tokens_per_block,
            " tokens"),
        cat("blocks have at least one token, and workers number 1 to ", kMaxConnectorWorkers));
  const bool is_plain =
      options.groups.size() == 1 && options.groups[0].kind == BlockGroup::Kind::whole;
  if (options.groups.empty() || (!is_plain && options.background_from_tokens > 1))
    return error(Code::invalid_argument,
                 cat(options.groups.size(), " groups of layers, and loads in the background from ",
                     options.background_from_tokens, " tokens"),
                 "with several groups, or a window, all loads are in the background");
  return ConnectorScheduler(std::make_unique<Core>(std::move(options)));
}

ConnectorScheduler::ConnectorScheduler(std::unique_ptr<Core> core) : core_(std::move(core)) {}
ConnectorScheduler::ConnectorScheduler(ConnectorScheduler&&) noexcept = default;
ConnectorScheduler& ConnectorScheduler::operator=(ConnectorScheduler&&) noexcept = default;
ConnectorScheduler::~ConnectorScheduler() = default;

// Tokens and hashes ------------------------------------------------------------------------------

ConnectorScheduler::Core::Request ConnectorScheduler::Core::begin(const Prompt& prompt) const {
  const BlockHash engine = root_of({options_.salt, options_.name_space});
  Request request;
  request.last = prompt.room.empty() ? engine : root_of_room(engine, prompt.room);
  request.room = prompt.room;
  request.tenant = prompt.tenant;
  if (request.tenant == 0 && options_.salt != 0) request.tenant = tenant_of(cat(options_.salt));
  return request;
}

void ConnectorScheduler::Core::extend_by(Request& request, std::span<const TokenId> tokens) const {
  request.tokens.insert(request.tokens.end(), tokens.begin(), tokens.end());
  const std::uint64_t per_block = options_.tokens_per_block;
  while (request.tokens.size() / per_block > request.hashes.size()) {
    const std::span all(request.tokens);
    request.last = extend(request.last, all.subspan(request.hashes.size() * per_block, per_block));
    request.hashes.push_back(request.last);
  }
}

void ConnectorScheduler::Core::name_blocks(const Request& request, std::uint64_t first,
                                           std::uint64_t end) {
  if (!options_.events_with_tokens) return;
  const std::uint64_t per_block = options_.tokens_per_block;
  for (std::uint64_t i = first; i < end; ++i) {
    const BlockHash hash = request.hashes[i];
    if (!held_.has(hash) && !saving_.contains(hash)) continue;
    news_.name({hash, i > 0 ? std::optional(request.hashes[i - 1]) : std::nullopt,
                std::span(request.tokens).subspan(i * per_block, per_block), request.room});
  }
}

Result<ConnectorScheduler::Core::Request*> ConnectorScheduler::Core::find(
    const RequestId& request) {
  const auto known = requests_.find(request);
  if (known == requests_.end())
    return error(Code::not_found, cat("no request '", printable(request), "'"),
                 "match() makes it known, finish() ends it");
  return &known->second;
}

// A request --------------------------------------------------------------------------------------

Result<ConnectorScheduler::Match> ConnectorScheduler::Core::match(const Prompt& prompt) {
  if (prompt.request.size() > kMaxRequestId)
    return error(Code::invalid_argument, cat("a request's id of ", prompt.request.size(), " bytes"),
                 cat("ids have at most ", kMaxRequestId, " bytes"));
  Request request = begin(prompt);
  extend_by(request, prompt.tokens);
  TOWPATH_TRY(const Match match, match_behind(request, prompt.request, prompt.computed));
  const auto [known, is_new] = requests_.try_emplace(prompt.request);
  if (!is_new) {
    request.saves = known->second.saves;
    request.loading = known->second.loading;
    request.loading_step = known->second.loading_step;
    request.loads = known->second.loads;
  }
  known->second = std::move(request);
  return match;
}

Result<ConnectorScheduler::Match> ConnectorScheduler::Core::match_again(const RequestId& id,
                                                                        std::uint64_t computed) {
  TOWPATH_TRY(Request * request, find(id));
  return match_behind(*request, id, computed);
}

Result<ConnectorScheduler::Match> ConnectorScheduler::Core::match_behind(Request& request,
                                                                         const RequestId& id,
                                                                         std::uint64_t computed) {
  if (computed > request.tokens.size())
    return error(Code::invalid_argument,
                 cat("request '", printable(id), "' with ", computed, " of ", request.tokens.size(),
                     " tokens computed"),
                 "no more can be computed than there are");
  request.computed = computed;
  request.matched = request.held_blocks = 0;
  request.choice = {};
  const std::uint64_t per_block = options_.tokens_per_block;
  if (computed % per_block == 0 && !request.tokens.empty())
    choose(request,
           {.first = computed / per_block, .end = (request.tokens.size() - 1) / per_block});
  name_blocks(request, 0, request.hashes.size());
  return Match{request.matched, request.matched >= options_.background_from_tokens};
}

/// The first group's blocks have the names that events have.
BlockHash ConnectorScheduler::Core::name_in(std::size_t group, BlockHash hash) const {
  return group == 0 ? hash : root_of({hash, cat("group ", group)});
}

std::optional<BlockHash> ConnectorScheduler::Core::parent_in(std::size_t group,
                                                             const Request& request,
                                                             std::uint64_t block) const {
  if (block == 0) return std::nullopt;
  return name_in(group, request.hashes[block - 1]);
}

/// Without a gap in what is needed whole. What is needed before `blocks.first` is the engine's own:
/// a window that ends later begins later, too.
ConnectorScheduler::Core::Held ConnectorScheduler::Core::held_of(const Request& request,
                                                                 const Blocks& blocks) const {
  Held held;
  std::vector<std::uint64_t> run(options_.groups.size());  // of each group, up to here
  for (std::uint64_t i = blocks.first; i < blocks.end; ++i) {
    TierIndex slowest = 0;
    bool may_end = true;
    for (std::size_t group = 0; group < run.size(); ++group) {
      const auto tier = held_.tier_of(name_in(group, request.hashes[i]));
      if (!tier && options_.groups[group].kind == BlockGroup::Kind::whole) return held;
      run[group] = tier ? run[group] + 1 : 0;
      slowest = std::max(slowest, tier.value_or(0));
      const Blocks so_far{blocks.first, i + 1};
      may_end = may_end && run[group] >= so_far.end - first_needed(group, so_far);
    }
    held.tiers.push_back(slowest);
    held.may_end.push_back(may_end);
  }
  return held;
}

/// How many of these blocks it matches: at most so many that all groups can go on behind them.
void ConnectorScheduler::Core::choose(Request& request, const Blocks& blocks) {
  auto [tiers, may_end] = held_of(request, blocks);
  const auto last_end = [&](std::uint64_t end) {
    while (end > 0 && !may_end[end - 1]) --end;
    return end;
  };
  tiers.resize(last_end(tiers.size()));
  // A window's blocks are few; a step of the prompt is loaded once for each group that has all.
  const auto whole = static_cast<std::uint64_t>(
      std::ranges::count(options_.groups, BlockGroup::Kind::whole, &BlockGroup::kind));
  LoadOrCompute::Question question{
      .tiers = tiers,
      .tokens_per_block = std::max<std::uint64_t>(
          1, options_.tokens_per_block / std::max<std::uint64_t>(1, whole))};
  for (std::size_t tier = 0; tier < kMaxTiers; ++tier)
    question.waiting[tier] = loading_[tier] + next_loading_[tier];
  request.held_blocks = tiers.size();
  request.choice = costs_.ask(question);
  request.choice.blocks = last_end(request.choice.blocks);
  request.matched = request.choice.blocks * options_.tokens_per_block;
}

/// The engine may load less than was chosen.
void ConnectorScheduler::Core::note_choice(const Request& request, std::uint64_t loaded) {
  const std::uint64_t held = request.held_blocks;
  if (held == 0) return;
  figures_.loaded_all += loaded == held ? 1 : 0;
  figures_.loaded_some += loaded > 0 && loaded < held ? 1 : 0;
  figures_.loaded_none += loaded == 0 ? 1 : 0;
  figures_.tokens_not_loaded += (held - loaded) * options_.tokens_per_block;
  if (loaded != request.choice.blocks) return;
  costs_.note_decision(request.choice, held);
  figures_.loaded_to_see += request.choice.is_to_see ? 1 : 0;
}

Status ConnectorScheduler::Core::check_tables(const RequestId& id, const Request& request,
                                              const BlockTables& tables,
                                              std::uint64_t loaded_tokens) const {
  const std::uint64_t per_block = options_.tokens_per_block;
  const std::uint64_t first = request.computed / per_block;
  const Blocks loaded{first, first + loaded_tokens / per_block};
  bool are_there = tables.size() == options_.groups.size();
  for (std::size_t group = 0; are_there && loaded_tokens > 0 && group < tables.size(); ++group) {
    const std::span table = tables[group];
    are_there = table.size() >= loaded.end;
    for (std::uint64_t i = first_needed(group, loaded); are_there && i < loaded.end; ++i)
      are_there = !is_null(table[i]);
  }
  if (are_there && loaded_tokens <= request.matched && loaded_tokens % per_block == 0) return {};
  return error(Code::invalid_argument,
               cat("request '", printable(id), "': ", loaded_tokens, " tokens to load behind ",
                   request.computed, " into ", tables.size(), " tables, the first of ",
                   tables[0].size(), " blocks; matched were ", request.matched),
               "load what was matched, or fewer whole blocks, with a table for each group");
}

Status ConnectorScheduler::Core::allocate(const RequestId& id, const BlockTables& tables,
                                          std::uint64_t loaded_tokens) {
  TOWPATH_TRY(Request * request, find(id));
  TOWPATH_TRY(check_tables(id, *request, tables, loaded_tokens));
  const std::uint64_t per_block = options_.tokens_per_block;
  const std::uint64_t first = request->computed / per_block;
  const Blocks loaded{first, first + loaded_tokens / per_block};
  if (request->tables.empty()) {
    figures_.asked_tokens += request->tokens.size() - request->computed;
    note_choice(*request, loaded_tokens / per_block);
  }
  request->tables.assign(tables.size(), {});
  for (std::size_t group = 0; group < tables.size(); ++group)
    request->tables[group].assign(tables[group].begin(), tables[group].end());
  if (loaded_tokens == 0) return {};
  RequestOrder load{.request = id,
                    .in_background = loaded_tokens >= options_.background_from_tokens};
  for (std::size_t group = 0; group < tables.size(); ++group) {
    for (std::uint64_t i = first_needed(group, loaded); i < loaded.end; ++i)
      load.blocks.push_back(
          {name_in(group, request->hashes[i]), tables[group][i], parent_in(group, *request, i)});
  }
  TierCounts& counts = load.in_background ? loading_ : next_loading_;
  for (const BlockOrder& block : load.blocks) {
    const TierIndex tier = held_.tier_of(block.hash).value_or(0);
    ++counts[tier];
    if (load.in_background) ++request->loads[tier];
  }
  figures_.matched_tokens += loaded_tokens;
  request->matched = 0;  // allocated again without a match, it loads nothing twice
  next_.loads.push_back(std::move(load));
  return {};
}

/// Of each group what the engine still has after the step, but for what is held, or being saved.
void ConnectorScheduler::Core::order_saves(const Request& request, const Progress& progress,
                                           RequestOrder& into) {
  const std::uint64_t per_block = options_.tokens_per_block;
  const std::uint64_t end = progress.computed_after / per_block;
  const StepOfRequest step =
      progress.step.value_or(StepOfRequest{progress.computed_before, progress.computed_after});
  for (std::size_t group = 0; group < options_.groups.size(); ++group) {
    const BlockGroup& kind = options_.groups[group];
    std::uint64_t first = progress.computed_before / per_block;
    if (kind.kind == BlockGroup::Kind::window && step.before > kind.window_tokens)
      first = std::max(first, (step.before - kind.window_tokens) / per_block);
    if (kind.kind == BlockGroup::Kind::state)
      first = step.after == end * per_block && end > 0 ? std::max(first, end - 1) : end;
    for (std::uint64_t i = first; i < end; ++i) {
      const std::uint64_t block = request.tables[group][i];
      const BlockHash hash = name_in(group, request.hashes[i]);
      if (is_null(block) || held_.has(hash)) continue;
      if (saving_.try_emplace(hash, options_.workers).second)
        into.blocks.push_back({hash, block, parent_in(group, request, i)});
    }
  }
}

/// Errors: a step that goes back, or beyond what is known with what comes with it.
Status ConnectorScheduler::Core::check_progress(const RequestId& id, const Request& request,
                                                const Progress& progress) const {
  const std::uint64_t tokens = request.tokens.size() + progress.new_tokens.size();
  std::uint64_t blocks = UINT64_MAX;  // of the group that has fewest
  for (std::size_t group = 0; group < options_.groups.size(); ++group) {
    const std::size_t has = group < request.tables.size() ? request.tables[group].size() : 0;
    const std::size_t more =
        group < progress.new_blocks.size() ? progress.new_blocks[group].size() : 0;
    blocks = std::min<std::uint64_t>(blocks, has + more);
  }
  const std::uint64_t per_block = options_.tokens_per_block;
  if (progress.computed_before <= progress.computed_after && progress.computed_after <= tokens &&
      progress.computed_after / per_block <= blocks)
    return {};
  return error(Code::invalid_argument,
               cat("request '", printable(id), "' goes from ", progress.computed_before, " to ",
                   progress.computed_after, " tokens; known are ", tokens, " tokens and ", blocks,
                   " blocks of ", per_block),
               "tell new tokens and blocks not later than they are computed");
}

Status ConnectorScheduler::Core::advance(const RequestId& id, const Progress& progress) {
  TOWPATH_TRY(Request * request, find(id));
  TOWPATH_TRY(check_progress(id, *request, progress));
  extend_by(*request, progress.new_tokens);
  request->tables.resize(options_.groups.size());
  for (std::size_t group = 0; group < std::min(request->tables.size(), progress.new_blocks.size());
       ++group) {
    const std::span more = progress.new_blocks[group];
    request->tables[group].insert(request->tables[group].end(), more.begin(), more.end());
  }
  const std::uint64_t end = progress.computed_after / options_.tokens_per_block;
  RequestOrder save{.request = id,
                    .in_background = options_.saves_in_background,
                    .priority = progress.priority,
                    .tenant = request->tenant};
  order_saves(*request, progress, save);
  name_blocks(*request, progress.computed_before / options_.tokens_per_block, end);
  if (save.blocks.empty()) return {};
  figures_.saved_blocks += save.blocks.size();
  request->saves = request->saves || save.in_background;
  next_.saves.push_back(std::move(save));
  return {};
}

/// What was ordered of a request since the last build() would read and write blocks of others.
void ConnectorScheduler::Core::withdraw(const RequestId& id, bool with_background_saves) {
  std::erase_if(next_.loads, [&](const RequestOrder& load) { return load.request == id; });
  next_loading_ = {};
  for (const RequestOrder& load : next_.loads)
    for (const BlockOrder& block : load.blocks)
      if (!load.in_background) ++next_loading_[held_.tier_of(block.hash).value_or(0)];
  std::erase_if(next_.saves, [&](const RequestOrder& save) {
    if (save.request != id || (save.in_background && !with_background_saves)) return false;
    for (const BlockOrder& block : save.blocks) {
      saving_.erase(block.hash);
      if (!held_.has(block.hash)) news_.forget(block.hash);
    }
    figures_.saved_blocks -= save.blocks.size();
    return true;
  });
}

Status ConnectorScheduler::Core::preempt(const RequestId& id) {
  TOWPATH_TRY(Request * request, find(id));
  if (request->loading > 0)
    return error(
        Code::not_ready,
        cat("request '", printable(id), "' is being loaded in the background by ",
            std::popcount(request->loading), " workers, into blocks that would be others'"),
        "preempt it when it has been received, or finish it: its blocks stay until then");
  withdraw(id, true);
  end_loads(*request);
  if (request->saves) next_.settle.push_back(id);
  request->tables.clear();
  request->saves = false;
  return {};
}

Result<ConnectorScheduler::Finish> ConnectorScheduler::Core::finish(const RequestId& id) {
  TOWPATH_TRY(Request * request, find(id));
  withdraw(id, false);
  const Finish finish{request->saves || request->loading > 0};
  if (request->saves) next_.ends.push_back(id);
  end_loads(*request);
  requests_.erase(id);
  return finish;
}

// The class that users see -----------------------------------------------------------------------

Result<ConnectorScheduler::Match> ConnectorScheduler::match(const Prompt& prompt) {
  return core_->match(prompt);
}
Result<ConnectorScheduler::Match> ConnectorScheduler::match_again(const RequestId& request,
                                                                  std::uint64_t computed) {
  return core_->match_again(request, computed);
}
Status ConnectorScheduler::allocate(const RequestId& request, const BlockTables& blocks,
                                    std::uint64_t loaded_tokens) {
  return core_->allocate(request, blocks, loaded_tokens);
}
Status ConnectorScheduler::advance(const RequestId& request, const Progress& progress) {
  return core_->advance(request, progress);
}
void ConnectorScheduler::step_begins(std::uint64_t tokens) { core_->step_begins(tokens); }
void ConnectorScheduler::step_ends() { core_->step_ends(); }
StepOrders ConnectorScheduler::build() { return core_->build(); }
bool ConnectorScheduler::has_orders() const { return core_->has_orders(); }
Status ConnectorScheduler::update(const WorkerReport& report) { return core_->update(report); }
Status ConnectorScheduler::preempt(const RequestId& request) { return core_->preempt(request); }
Result<ConnectorScheduler::Finish> ConnectorScheduler::finish(const RequestId& request) {
  return core_->finish(request);
}
Status ConnectorScheduler::hint(const RequestId& request, const Hint& hint) {
  return core_->hint(request, hint);
}
std::vector<ConnectorScheduler::AnsweredHint> ConnectorScheduler::take_answered_hints() {
  return core_->take_answered_hints();
}
std::vector<HeldBlockEvent> ConnectorScheduler::take_events() { return core_->take_events(); }
bool ConnectorScheduler::holds(BlockHash hash) const { return core_->holds(hash); }
ConnectorScheduler::Figures ConnectorScheduler::figures() const { return core_->figures(); }

}  // namespace towpath::kv
