// Transfers: from two prepared sides to bytes under way, and what is used again afterwards.
#include <algorithm>
#include <new>
#include <utility>

#include <towpath/agent/core.h>
#include <towpath/core/format.h>
#include <towpath/telemetry/agent_meter.h>

namespace towpath::agent {

bool TransferCore::touches(const MemoryRecord* record) const {
  const auto in = [&](const PreparedSide& side) {
    return std::ranges::find(side.list.records(), record, &RecordPtr::get) !=
           side.list.records().end();
  };
  return in(*local) || in(*remote);
}

// ---- sides ----

std::shared_ptr<PreparedSide> Transfers::new_side() const {
  auto side = std::make_shared<PreparedSide>();
  side->agent = context_.core;
  return side;
}

// Long lists would be given back to the kernel, and taken from it page by page, for each transfer.
std::shared_ptr<PreparedSide> Transfers::take_side() {
  {
    run::MutexLock lock(pool_mutex_);
    if (!spare_sides_.empty()) {
      std::shared_ptr<PreparedSide> side = std::move(spare_sides_.back());
      spare_sides_.pop_back();
      return side;
    }
  }
  return new_side();
}

void Transfers::put_back(std::shared_ptr<PreparedSide> side) {
  side->list.clear();
  side->peer.reset();
  run::MutexLock lock(pool_mutex_);
  if (spare_sides_.size() < kMaxSpare && !context_.is_closed())
    spare_sides_.push_back(std::move(side));
}

Result<Transfers::Sides> Transfers::sides_of(const PreparedList& local,
                                             const PreparedList& remote) const {
  if (!local.valid() || !remote.valid())
    return error(Code::invalid_argument, "a side of the transfer was not prepared",
                 "use prepare() and prepare_remote()");
  if (local.side()->peer != nullptr || remote.side()->peer == nullptr)
    return error(Code::invalid_argument, "the sides of the transfer are swapped",
                 "the first list is the local one, from prepare()");
  const auto is_ours = [&](const std::weak_ptr<AgentCore>& agent) {
    return !agent.owner_before(context_.core) && !context_.core.owner_before(agent);
  };
  if (!is_ours(local.side()->agent) || !is_ours(remote.side()->agent))
    return error(Code::invalid_argument, "a side of the transfer was prepared by another agent");
  return Sides{local.side(), remote.side()};
}

// ---- making ----

std::shared_ptr<TransferCore> Transfers::take_from_pool(BackendInstance& instance) {
  {
    run::MutexLock lock(pool_mutex_);
    for (std::size_t i = pool_.size(); i-- > 0;) {
      if (pool_[i]->instance != &instance) continue;
      std::shared_ptr<TransferCore> transfer = std::move(pool_[i]);
      pool_.erase(pool_.begin() + static_cast<std::ptrdiff_t>(i));
      transfer->state.store(TransferState::prepared, std::memory_order_relaxed);
      transfer->outcome.store(Outcome::none, std::memory_order_relaxed);
      transfer->status = {};
      transfer->errors.clear();
      return transfer;
    }
  }
  // Not with its count in one piece: made_ keeps that of one that has gone.
  std::shared_ptr<TransferCore> transfer(new TransferCore);
  transfer->instance = &instance;
  note_made(transfer);
  transfer->operation = engine_.with(instance, [&]() TOWPATH_REQUIRES(instance.mutex) {
    return instance.backend->make_operation();
  });
  transfer->operation->owner = transfer.get();
  return transfer;
}

// Those that have gone are left out now and then, so that each costs what one does.
void Transfers::note_made(const std::shared_ptr<TransferCore>& transfer) {
  run::MutexLock lock(pool_mutex_);
  if (made_.size() >= sweep_at_) {
    std::erase_if(made_, [](const auto& one) { return one.expired(); });
    sweep_at_ = std::max(kMaxPooled, 2 * made_.size());
  }
  made_.push_back(transfer);
}

namespace {

Status lists_are_stale() {
  return error(Code::not_found,
               "a region of this transfer was deregistered, or is no longer in the peer's metadata",
               "prepare the lists again");
}

// The user's index span is borrowed for the call only.
Selection keep_indices(const Selection& selection, std::vector<std::uint32_t>& storage) {
  if (!selection.by_index()) return selection;
  storage.assign(selection.indices().begin(), selection.indices().end());
  return Selection::of(storage);
}

/// What was sent by the posts before is not sent by this one, nor by those that follow.
bool takes_away(const PostOptions& options) {
  return options.notification && options.notification->empty() && !options.sends_empty;
}

}  // namespace

Result<Transfer> Transfers::make(TransferOp op, Sides&& sides, const TransferOptions& options) {
  TOWPATH_TRY(context_.check_open());
  TOWPATH_TRY(const Offer chosen, choose(choice_of(op, sides, options)));
  if (options.notification) TOWPATH_TRY(backends_.notifier_of(*sides.remote->peer).status());
  std::shared_ptr<TransferCore> transfer = take_from_pool(backends_.at(chosen.instance));
  transfer->agent = context_.core.lock();
  transfer->op = op;
  transfer->is_trial = chosen.wants_trial;
  transfer->local = std::move(sides.local);
  transfer->remote = std::move(sides.remote);
  transfer->own_sides = {std::move(sides.own_local), std::move(sides.own_remote)};
  transfer->options = options;
  transfer->options.local = keep_indices(options.local, transfer->local_indices);
  transfer->options.remote = keep_indices(options.remote, transfer->remote_indices);
  transfer->notification = options.notification;
  transfer->checked_generation = 0;
  transfer->flow = flow_of(*transfer);
  if (Status built = build_segments(*transfer); !built.ok()) {
    abandon(std::move(transfer));
    return built;
  }
  return Transfer(std::move(transfer));
}

telemetry::Flow* Transfers::flow_of(const TransferCore& transfer) const {
  telemetry::AgentMeter* const meter = context_.meter();
  if (meter == nullptr) return nullptr;
  return &meter->flow({.backend = transfer.instance->name,
                       .peer = transfer.peer().identity.name,
                       .op = transfer.op,
                       .local = transfer.local->list.kind(),
                       .remote = transfer.remote->list.kind()});
}

Status Transfers::build_segments(TransferCore& transfer) {
  BackendInstance& instance = *transfer.instance;
  const SegmentList::Options build{
      .instance = instance.index,
      .max_segment_bytes = instance.backend->capabilities().max_segment_bytes,
      .merge = transfer.options.merge,
      .op = transfer.op};
  // Under the lock under which memory goes: a list may have been prepared on some that just does.
  return engine_.with(instance, [&]() TOWPATH_REQUIRES(instance.mutex) -> Status {
    if (!is_current(transfer)) return lists_are_stale();
    TOWPATH_TRY(transfer.segments.build(transfer.local_side(), transfer.remote_side(), build));
    if (!context_.has_read_only.load(std::memory_order_relaxed)) return {};
    return check_writable(transfer);
  });
}

/// Whether the target of a transfer can be written. What is protected later fails by itself.
Status Transfers::check_writable(const TransferCore& transfer) {
  const bool is_local = transfer.op == TransferOp::read;
  for (const backend::Segment& segment : transfer.segments.segments()) {
    const backend::Memory* const target = is_local ? segment.local : segment.remote;
    if (!target->is_read_only) continue;
    const std::uint64_t index = transfer.segments.descriptor_at(
        {.segment = static_cast<std::uint64_t>(&segment - transfer.segments.segments().data())},
        transfer.local_side());
    return error(
        Code::denied,
        cat("descriptor ", index, ": the memory at ",
            hex(is_local ? segment.local_address : segment.remote_address), " of ",
            is_local ? std::string("this agent") : printable(transfer.remote->peer->identity.name),
            " is read-only"),
        "register memory that its process may write to");
  }
  return {};
}

// ---- posting ----

namespace {

/// How often the instance let go of the transfer's records or took them again: it only grows. None:
/// it is without one.
std::optional<std::uint64_t> changes_of(const TransferCore& transfer) {
  std::uint64_t all = 0;
  for (const PreparedSide* const side : {transfer.local.get(), transfer.remote.get()}) {
    for (const RecordPtr& record : side->list.records()) {
      const auto changes = record->changes_in(transfer.instance->index);
      if (!changes) return std::nullopt;
      all += *changes;
    }
  }
  return all;
}

}  // namespace

// First when its segments are built, of what stands then.
bool Transfers::is_current(TransferCore& transfer) const {
  // Acquire: pairs with the release in note_memory_gone().
  const std::uint64_t generation = context_.memory_generation.load(std::memory_order_acquire);
  if (transfer.checked_generation == generation) return true;
  const std::optional<std::uint64_t> changes = changes_of(transfer);
  if (!changes) return false;
  if (transfer.checked_generation == 0) transfer.record_changes = *changes;
  if (transfer.record_changes != *changes) return false;
  transfer.checked_generation = generation;
  return true;
}

Status Transfers::check_postable(TransferCore& transfer) {
  // Again: the agent may have closed its paths since, and does so under this mutex.
  TOWPATH_TRY(context_.check_open());
  const TransferState state = transfer.state.load(std::memory_order_acquire);
  if (state == TransferState::active || state == TransferState::draining) {
    return error(Code::not_ready, cat("the transfer is still ", name_of(state)),
                 "wait until it has ended before posting it again");
  }
  TOWPATH_TRY(transfer.instance->check_path(transfer.peer()));
  return is_current(transfer) ? Status() : lists_are_stale();
}

void Transfers::start(TransferCore& transfer, std::optional<Bytes>& replacement, Instant begin,
                      const PostOptions& options) noexcept {
  if (replacement)
    transfer.notification = takes_away(options) ? std::nullopt : std::move(replacement);
  transfer.posted_at = begin;
  transfer.deadline = begin + options.timeout.value_or(context_.options.default_timeout);
  transfer.status = {};
  transfer.errors.clear();
  transfer.moved_bytes = 0;
  transfer.outcome.store(Outcome::none, std::memory_order_relaxed);
  transfer.state.store(TransferState::active, std::memory_order_release);
}

namespace {

/// What this post shall send the peer, or null.
const Bytes* message_of(const TransferCore& transfer, const PostOptions& options) {
  if (options.notification) return takes_away(options) ? nullptr : &*options.notification;
  return transfer.notification ? &*transfer.notification : nullptr;
}

}  // namespace

Status Transfers::post(TransferCore& transfer, const PostOptions& options) {
  // First: a handle may outlive the agent, and then the clock that it was given.
  TOWPATH_TRY(context_.check_open());
  const Instant begin = context_.clock.now();
  BackendInstance& instance = *transfer.instance;
  const Bytes* const message = message_of(transfer, options);
  Posting posting{.begin = begin};
  if (message == nullptr) return post_over(instance, transfer, options, posting);
  Peer& peer = transfer.peer();
  const std::size_t size = message->size();
  TOWPATH_TRY(BackendInstance* const notifier, backends_.notifier_of(peer));
  if (notifier == &instance) {
    posting.reserved_bytes = size;
    return post_over(instance, transfer, options, posting);
  }
  // Two backends, one lock after the other.
  TOWPATH_TRY(engine_.with(*notifier, [&]() TOWPATH_REQUIRES(notifier->mutex) {
    Status open = context_.check_open();  // again, as in check_postable()
    return open.ok() ? notifier->reserve(peer, size) : open;
  }));
  struct Room {
    ProgressEngine& engine;
    BackendInstance& notifier;
    Peer& peer;
    std::size_t size;
    const Posting& posting;
    ~Room() {
      if (posting.has_begun) return;
      engine.with(notifier, [this]() TOWPATH_REQUIRES(notifier.mutex) {
        notifier.settle_reserved(peer, size, nullptr);
      });
    }
  } const room{engine_, *notifier, peer, size, posting};
  return post_over(instance, transfer, options, posting);
}

// Room for the notification is kept from here to the end, so that it is there when the bytes are.
Status Transfers::post_over(BackendInstance& instance, TransferCore& transfer,
                            const PostOptions& options, Posting& posting) {
  std::optional<Bytes> replacement = options.notification;  // first: what throws has kept no room
  return engine_.with(instance, [&]() TOWPATH_REQUIRES(instance.mutex) -> Status {
    TOWPATH_TRY(check_postable(transfer));
    if (posting.reserved_bytes)
      TOWPATH_TRY(instance.reserve(transfer.peer(), *posting.reserved_bytes));
    start(transfer, replacement, posting.begin, options);
    posting.has_begun = true;
    instance.post(transfer);
    // One that ended in here took as long: the clock was asked when it did.
    const bool has_ended = transfer.state.load(std::memory_order_relaxed) == TransferState::ended;
    const Duration took = has_ended ? transfer.transfer_time : context_.clock.now() - posting.begin;
    transfer.post_nanoseconds.store(took.count(), std::memory_order_relaxed);
    if (transfer.flow != nullptr) transfer.flow->post_took(took);
    return {};
  });
}

void Transfers::cancel(TransferCore& transfer) {
  BackendInstance& instance = *transfer.instance;
  engine_.with(instance, [&]() TOWPATH_REQUIRES(instance.mutex) { cancel_locked(transfer); });
}

// So that letting go of what has ended allocates nothing. What has not ended when the agent has
// does not end any more, and what its backend was given may have gone.
void Transfers::cancel_locked(TransferCore& transfer) {
  if (!transfer.is_active() || context_.is_over) return;
  transfer.instance->stop(transfer, Outcome::cancelled,
                          error(Code::cancelled, "the transfer was cancelled"));
  transfer.instance->settle();
}

void Transfers::abandon(std::shared_ptr<TransferCore> transfer) noexcept {
  BackendInstance& instance = *transfer->instance;
  bool is_kept = false;
  engine_.with(instance, [&]() TOWPATH_REQUIRES(instance.mutex) {
    try {
      cancel_locked(*transfer);
    } catch (const std::bad_alloc&) {  // then its deadline ends it
    }
    if (transfer->is_active()) {  // drains by itself, then goes
      transfer->agent.reset();
      transfer.reset();
      return;
    }
    // A thread that waits until it is quiesced would wait for the next one, too. It took its handle
    // under this mutex, of what was active: nobody takes one now.
    const bool is_waited_for = transfer.use_count() > 1;
    run::MutexLock lock(pool_mutex_);
    if (context_.is_closed() || is_waited_for || pool_.size() >= kMaxPooled)
      transfer->operation.reset();
    is_kept = transfer->operation != nullptr;
  });
  if (!is_kept) return;
  // What it referred to is let go of now; its capacity is kept for the next transfer.
  transfer->local.reset();
  transfer->remote.reset();
  transfer->agent.reset();
  try {
    for (auto& side : transfer->own_sides) {
      if (side) put_back(std::move(side));
    }
    run::MutexLock lock(pool_mutex_);
    if (pool_.size() < kMaxPooled) {
      pool_.push_back(transfer);
      return;
    }
  } catch (const std::bad_alloc&) {  // the next transfer is made anew
  }
  run::MutexLock lock(instance.mutex);
  transfer->operation.reset();
}

void Transfers::close() {
  std::vector<std::shared_ptr<TransferCore>> all;  // those in the pool, too
  {
    run::MutexLock lock(pool_mutex_);
    for (const auto& one : made_)
      if (std::shared_ptr<TransferCore> transfer = one.lock()) all.push_back(std::move(transfer));
    made_.clear();
    pool_.clear();
  }
  for (const auto& transfer : all) {
    run::MutexLock lock(transfer->instance->mutex);
    if (!transfer->is_active()) transfer->operation.reset();
  }
}

}  // namespace towpath::agent
