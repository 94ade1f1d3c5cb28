#include <algorithm>
#include <new>

#include <towpath/agent/backend_instance.h>
#include <towpath/core/check.h>
#include <towpath/core/format.h>

namespace towpath::agent {
namespace {

Outcome outcome_of(const Status& status) {
  switch (status.code()) {
    case Code::ok: return Outcome::done;
    case Code::cancelled: return Outcome::cancelled;
    case Code::timed_out: return Outcome::timed_out;
    case Code::peer_lost: return Outcome::peer_lost;
    default: return Outcome::failed;
  }
}

}  // namespace

void BackendInstance::post(TransferCore& transfer) {
  transfer.posted_since_epoch = since_epoch(transfer.posted_at);
  link(transfer);
  if (transfer.deadline < next_deadline_) {
    next_deadline_ = transfer.deadline;
    owner_.note_deadline(next_deadline_);
  }
  if (transfer.flow != nullptr) {
    transfer.flow_ticket = transfer.flow->posted({.at = transfer.posted_at,
                                                  .bytes = transfer.segments.bytes(),
                                                  .descriptors = transfer.segments.descriptors(),
                                                  .runs = transfer.segments.runs()});
  }
  transfer.operation->post({.op = transfer.op,
                            .connection = transfer.peer().paths[index].connection.get(),
                            .segments = transfer.segments.segments()});
  settle();
}

// The wall's clock is asked once in a while: it is only for people.
Duration BackendInstance::since_epoch(Instant at) {
  constexpr Duration kGoodFor = std::chrono::seconds(1);
  if (!epoch_ || at - epoch_asked_at_ >= kGoodFor) {
    epoch_ = clock_.since_epoch() - Duration(at.nanoseconds);
    epoch_asked_at_ = at;
  }
  return *epoch_ + Duration(at.nanoseconds);
}

void BackendInstance::link(TransferCore& transfer) {
  transfer.keep_alive = transfer.shared_from_this();
  transfer.previous = nullptr;
  transfer.next = active_;
  if (active_ != nullptr) active_->previous = &transfer;
  active_ = &transfer;
  is_moving_.store(true, std::memory_order_relaxed);
}

void BackendInstance::unlink(TransferCore& transfer) {
  (transfer.previous != nullptr ? transfer.previous->next : active_) = transfer.next;
  if (transfer.next != nullptr) transfer.next->previous = transfer.previous;
  is_moving_.store(active_ != nullptr, std::memory_order_relaxed);
}

void BackendInstance::stop(TransferCore& transfer, Outcome outcome, Status why) {
  if (!transfer.is_active()) return;
  to_cancel_.push_back(transfer.keep_alive);  // first: what finds no memory has changed nothing
  if (transfer.outcome.load(std::memory_order_relaxed) == Outcome::none) {
    transfer.status = std::move(why);
    transfer.outcome.store(outcome, std::memory_order_release);
    transfer.state.store(TransferState::draining, std::memory_order_release);
  }
}

bool BackendInstance::any_active(const std::function<bool(const TransferCore&)>& matches) const {
  for (const TransferCore* transfer = active_; transfer != nullptr; transfer = transfer->next) {
    if (matches(*transfer)) return true;
  }
  return false;
}

std::vector<std::shared_ptr<TransferCore>> BackendInstance::stop_all(
    const std::function<bool(const TransferCore&)>& matches, Outcome outcome, const Status& why) {
  std::vector<std::shared_ptr<TransferCore>> stopped;
  for (TransferCore* transfer = active_; transfer != nullptr; transfer = transfer->next) {
    if (!matches(*transfer)) continue;
    stopped.push_back(transfer->keep_alive);
    stop(*transfer, outcome, why);
  }
  settle();
  std::erase_if(stopped, [](const auto& transfer) { return !transfer->is_active(); });
  return stopped;
}

// The single place where a transfer's bytes come to rest.
void BackendInstance::on_complete(backend::Operation& operation,
                                  const backend::Completion& completion) {
  auto& transfer = *static_cast<TransferCore*>(operation.owner);
  TOWPATH_CHECK(transfer.is_active(), "a backend completed an operation twice");
  transfer.moved_bytes = completion.bytes;
  Outcome outcome = transfer.outcome.load(std::memory_order_relaxed);
  try {
    if (outcome == Outcome::none) {
      transfer.status = completion.status;
      outcome = outcome_of(completion.status);
      if (!completion.status.ok()) note_failures(transfer, completion);
    }
    if (transfer.notification) notify_of(transfer, outcome == Outcome::done);
  } catch (const std::bad_alloc&) {  // it has ended all the same
    if (outcome == Outcome::done) transfer.status = no_memory_;
    if (outcome == Outcome::done) outcome = Outcome::failed;
    transfer.errors.clear();
  }
  transfer.outcome.store(outcome, std::memory_order_release);
  end(transfer);
}

void BackendInstance::end(TransferCore& transfer) {
  const Instant now = clock_.now();
  transfer.transfer_time = now - transfer.posted_at;
  if (transfer.flow != nullptr) {
    transfer.flow->ended({.ticket = transfer.flow_ticket,
                          .at = now,
                          .outcome = transfer.outcome.load(std::memory_order_relaxed),
                          .code = transfer.status.code(),
                          .posted_bytes = transfer.segments.bytes(),
                          .moved_bytes = transfer.moved_bytes,
                          .descriptors = transfer.segments.descriptors(),
                          .time = transfer.transfer_time});
  }
  try {
    if (transfer.is_trial) owner_.note_trial(transfer);
  } catch (const std::bad_alloc&) {  // another one is made of the path
  }
  unlink(transfer);
  const std::shared_ptr<TransferCore> last = std::move(transfer.keep_alive);
  // Sequentially consistent: pairs with a waiter that announces itself and then looks at the state,
  // so that one of the two sees the other.
  transfer.state.store(TransferState::ended, std::memory_order_seq_cst);
  owner_.note_ended();
}

// A failure names an extent, and an extent may hold many descriptors: from the first byte that is
// missing on, all of them failed.
void BackendInstance::note_failures(TransferCore& transfer, const backend::Completion& completion) {
  // A list that is full may lack some: then nothing is proven, and no descriptor is told apart.
  if (completion.failures.empty() || completion.failures.size() >= backend::kMaxFailures) return;
  const auto segments = transfer.segments.segments();
  for (const backend::SegmentFailure& failure : completion.failures) {
    backend::SegmentFailure end = failure;
    const std::uint64_t length = segments[failure.segment].length;
    if (length > 0) end.bytes = length - 1;
    const std::uint64_t last = transfer.segments.descriptor_at(end, transfer.local_side());
    std::uint64_t descriptor = transfer.segments.descriptor_at(failure, transfer.local_side());
    for (; descriptor <= last; ++descriptor)
      transfer.errors.push_back({descriptor, failure.status});
  }
  std::ranges::sort(transfer.errors, {}, &DescriptorError::descriptor);
  const auto repeated = std::ranges::unique(transfer.errors, {}, &DescriptorError::descriptor);
  transfer.errors.erase(repeated.begin(), repeated.end());
  const DescriptorError& first = transfer.errors.front();
  transfer.status = error(completion.status.code(),
                          cat(transfer.errors.size(), " of ", transfer.segments.descriptors(),
                              " descriptors failed, the first is ", first.descriptor, ": ",
                              first.status.message()),
                          std::string(first.status.hint()))
                        .because(completion.status);
}

void BackendInstance::expire(Instant now) {
  if (now < next_deadline_) return;
  Instant next = Instant::never();  // noted in the end: what finds no memory is tried again
  for (TransferCore* transfer = active_; transfer != nullptr; transfer = transfer->next) {
    if (transfer->outcome.load(std::memory_order_relaxed) != Outcome::none) continue;
    if (transfer->deadline > now) {
      next = std::min(next, transfer->deadline);
      continue;
    }
    const auto after = std::chrono::duration_cast<std::chrono::milliseconds>(transfer->deadline -
                                                                             transfer->posted_at);
    stop(*transfer, Outcome::timed_out,
         error(Code::timed_out,
               cat(name_of(transfer->op), " of ", transfer->segments.bytes(), " bytes with ",
                   to_string(transfer->peer().identity), " over ", name, " did not end within ",
                   after.count(), " ms"),
               "give it more time, or look at the peer: it may be stopped or overloaded"));
  }
  next_deadline_ = next;
  renew_deadline();
}

void BackendInstance::renew_deadline() {
  const Instant next = std::min(next_deadline_, next_repeat_);
  if (next != Instant::never()) owner_.note_deadline(next);
}

void BackendInstance::settle_all() {
  take_deferred();
  do {  // again when a peer is lost while it is told something
    while (!to_cancel_.empty()) drain();
    if (!to_acknowledge_.empty()) acknowledge();
    if (!waiting_outboxes_.empty()) flush_outboxes();
  } while (!to_cancel_.empty());
  for (const PeerPtr& peer : lost_) peer->paths[index].outbox.reset();
  lost_.clear();
}

// One, which stays in the list until it was asked: if memory runs out before, the next call asks
// again. If it ended by itself meanwhile and was posted again, it is not what was stopped.
void BackendInstance::drain() {
  const std::shared_ptr<TransferCore> transfer = to_cancel_.back();
  const auto drains = [&] {
    return transfer->state.load(std::memory_order_relaxed) == TransferState::draining;
  };
  if (drains()) transfer->operation->cancel();
  if (drains() && backend->capabilities().quiesced == backend::Quiescence::teardown)
    cut(transfer->peer());
  to_cancel_.erase(std::ranges::find(to_cancel_.rbegin(), to_cancel_.rend(), transfer).base() - 1);
}

void BackendInstance::cut(Peer& peer) {
  const Status why =
      error(Code::peer_lost, cat("connection over ", name, " was torn down to end a transfer"),
            "load the peer's metadata again");
  log_.warning("connection torn down to make a transfer quiet", {{"backend", name}});
  backend::Connection& connection = *peer.paths[index].connection;
  backend->teardown(connection);
  on_peer_lost(connection, why);
}

bool BackendInstance::progress() {
  const bool more = backend->progress();
  if (next_deadline_ != Instant::never()) expire(clock_.now());
  settle();
  return more;
}

}  // namespace towpath::agent
