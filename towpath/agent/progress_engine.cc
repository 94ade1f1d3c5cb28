#include <algorithm>
#include <utility>

#include <towpath/agent/backend_chooser.h>
#include <towpath/agent/progress_engine.h>
#include <towpath/core/format.h>
#include <towpath/run/futex.h>
#include <towpath/sys/clock.h>

namespace towpath::agent {
namespace {

// Poller tags beside the backends' own indices.
constexpr std::uint64_t kWakerTag = 1000;
constexpr std::uint64_t kTimerTag = 1001;

/// A peer that takes no notification for so long keeps no agent from its end; how often to look.
constexpr Duration kFarewell = std::chrono::seconds(1);
constexpr Duration kFarewellStep = std::chrono::milliseconds(10);

bool runs_on_kernel_time(const Clock& clock) {
  const Duration apart = sys::SystemClock().now() - clock.now();
  return apart < std::chrono::seconds(1) && apart > -std::chrono::seconds(1);
}

bool has_ended(const TransferCore& transfer) {
  // Sequentially consistent: pairs with the store in BackendInstance::end(), as LeaderFollower
  // needs it.
  return transfer.state.load(std::memory_order_seq_cst) == TransferState::ended;
}

}  // namespace

bool Inbox::put(const AgentIdentity& from, ConstByteSpan message) {
  run::MutexLock lock(mutex_);
  // An empty one takes any message, or it would never come.
  const bool has_room = messages_.empty() || (messages_.size() < limits_.messages &&
                                              bytes_ + message.size() <= limits_.bytes);
  if (!has_room) {
    was_full_ = true;
    return false;
  }
  messages_.push_back({from, Bytes(message.begin(), message.end())});
  bytes_ += message.size();
  has_some_.store(true, std::memory_order_seq_cst);
  return true;
}

Inbox::Taken Inbox::take() {
  run::MutexLock lock(mutex_);
  has_some_.store(false, std::memory_order_relaxed);
  bytes_ = 0;
  return {std::exchange(messages_, {}), std::exchange(was_full_, false)};
}

Result<std::unique_ptr<ProgressEngine>> ProgressEngine::open(const AgentContext& context,
                                                             const BackendSet& backends) {
  TOWPATH_TRY(run::Poller poller, run::Poller::open());
  TOWPATH_TRY(run::TimerFd timer, run::TimerFd::open());
  const int timer_fd = timer.fd();
  std::unique_ptr<ProgressEngine> engine(
      new ProgressEngine(context, backends, std::move(poller), std::move(timer)));
  TOWPATH_TRY(engine->waker_, run::Waker::open());
  TOWPATH_TRY(engine->watch({engine->waker_->fd(), kWakerTag}));
  TOWPATH_TRY(engine->watch({timer_fd, kTimerTag}));
  TOWPATH_TRY(engine->waiting_,
              LeaderFollower::open({.poller = engine->poller_,
                                    .clock = context.clock,
                                    .looks_pay = [&self = *engine] { return self.looks_pay(); }}));
  return engine;
}

ProgressEngine::ProgressEngine(const AgentContext& context, const BackendSet& backends,
                               run::Poller poller, run::TimerFd timer)
    : context_(context),
      backends_(backends),
      inbox_({.messages = context.options.inbox_messages, .bytes = context.options.inbox_bytes}),
      poller_(std::move(poller)),
      timer_(std::move(timer)),
      is_kernel_time_(runs_on_kernel_time(context.clock)) {}

Status ProgressEngine::watch(const BackendInstance& instance) {
  const int fd = instance.backend->wait_fd();
  return fd >= 0 ? watch({fd, instance.index}) : Status();
}

Status ProgressEngine::watch(Watched watched) {
  run::MutexLock lock(watched_mutex_);
  TOWPATH_TRY(poller_.add(watched.fd, watched.tag));
  for (Listener* const listener : listeners_)
    TOWPATH_TRY(listener->poller.add(watched.fd, watched.tag));
  watched_.push_back(watched);
  return {};
}

void ProgressEngine::unwatch(int fd) {
  if (fd < 0) return;
  run::MutexLock lock(watched_mutex_);
  (void)poller_.remove(fd);
  for (Listener* const listener : listeners_) (void)listener->poller.remove(fd);
  std::erase_if(watched_, [&](const Watched& watched) { return watched.fd == fd; });
}

// ---- event loops

Result<std::unique_ptr<Listener>> Listener::open() {
  TOWPATH_TRY(run::Poller poller, run::Poller::open());
  TOWPATH_TRY(std::unique_ptr<run::Waker> waker, run::Waker::open());
  TOWPATH_TRY(poller.add(waker->fd(), kWakerTag));
  return std::make_unique<Listener>(Listener{std::move(poller), std::move(waker)});
}

Status ProgressEngine::attach(Listener& listener) {
  run::MutexLock lock(watched_mutex_);
  for (const Watched& watched : watched_) TOWPATH_TRY(listener.poller.add(watched.fd, watched.tag));
  listeners_.reserve(listeners_.size() + 1);  // what throws leaves it in neither list
  waiting_->add_listener(*listener.waker);
  listeners_.push_back(&listener);
  return {};
}

void ProgressEngine::detach(Listener& listener) {
  run::MutexLock lock(watched_mutex_);
  if (std::erase(listeners_, &listener) > 0) waiting_->remove_listener(*listener.waker);
}

void ProgressEngine::announce_end() {
  {
    // Nobody makes progress any more: what is readable, or becomes so, would stay it.
    run::MutexLock lock(watched_mutex_);
    for (Listener* const listener : listeners_)
      for (const Watched& watched : watched_) (void)listener->poller.remove(watched.fd);
    watched_.clear();
  }
  waiting_->note_change();
  waiting_->notify();
  for (std::uint32_t now = for_handles_.load(); now != 0; now = for_handles_.load())
    (void)run::futex_wait(for_handles_, now);
}

// Sequentially consistent throughout: who comes counts itself and then asks whether all is over;
// the end says so first and looks at the count then. One of the two sees the other.
ProgressEngine::HandleCall::~HandleCall() {
  const bool was_last = engine_.for_handles_.fetch_sub(1) == 1;
  if (was_last && engine_.context_.is_over) run::futex_wake(engine_.for_handles_, run::kWakeAll);
}

template <typename Work>
void ProgressEngine::unless_over(Work work) {
  const HandleCall counted(*this);
  if (!context_.is_over) work();
}

bool ProgressEngine::progress_for_handle() {
  bool more = false;
  unless_over([&] { more = progress(); });
  return more;
}

// ---- ending what moves ----

bool ProgressEngine::quiesce(BackendInstance& instance, const Matches& matches, Outcome outcome,
                             const Status& why) {
  const auto active = with(instance, [&]() TOWPATH_REQUIRES(instance.mutex) {
    return instance.stop_all(matches, outcome, why);
  });
  if (active.empty()) return true;
  const backend::Capabilities& can = instance.backend->capabilities();
  if (can.quiesced == backend::Quiescence::none) return false;
  // They cannot be posted again: their memory is stale, or the agent closed.
  const auto have_ended = [&] {
    return std::ranges::all_of(active, [](const auto& one) { return has_ended(*one); });
  };
  // Should the clock stand still, the timeout is what was slept.
  unless_over([&] {
    waiting_->wait(
        {.timeout = can.quiescence_bound + context_.options.quiesce_timeout, .counts_sleep = true},
        [&] { return context_.is_over || have_ended(); }, [this] { return progress_backends(); });
  });
  return have_ended();
}

void ProgressEngine::reap_when_quiesced(PeerPtr peer) {
  {
    run::MutexLock lock(retired_mutex_);
    retired_.push_back(std::move(peer));
  }
  reap_retired();
}

void ProgressEngine::reap_retired() {
  run::MutexLock lock(retired_mutex_);
  std::erase_if(retired_, [&](const PeerPtr& peer) { return reap(peer); });
  any_retired_.store(!retired_.empty(), std::memory_order_relaxed);
}

bool ProgressEngine::reap(const PeerPtr& peer) {
  bool quiesced = true;
  const auto uses = [&](const TransferCore& transfer) { return &transfer.peer() == peer.get(); };
  for (const auto& instance : backends_.all()) {
    with(*instance, [&]() TOWPATH_REQUIRES(instance->mutex) {
      if (instance->any_active(uses))
        quiesced = false;
      else
        instance->let_go_of(*peer);
    });
  }
  return quiesced;
}

void ProgressEngine::close_retired(InstanceMask idle) {
  run::MutexLock lock(retired_mutex_);
  for (const auto& instance : backends_.all()) {
    if ((idle & instance_bit(instance->index)) == 0) continue;
    run::MutexLock instance_lock(instance->mutex);
    for (const PeerPtr& peer : retired_) instance->let_go_of(*peer);
  }
}

// ---- notifications ----

Status ProgressEngine::notify(Peer& peer, ConstByteSpan message) {
  TOWPATH_TRY(BackendInstance* const instance, backends_.notifier_of(peer));
  return with(*instance, [&]() TOWPATH_REQUIRES(instance->mutex) {
    Status queued = instance->enqueue(peer, message);
    instance->settle();
    return queued;
  });
}

bool ProgressEngine::deliver(const AgentIdentity& from, ConstByteSpan message) {
  if (!inbox_.put(from, message)) return false;
  note_ended();
  return true;
}

std::vector<Notification> ProgressEngine::take_notifications() {
  Inbox::Taken taken = inbox_.take();
  // A thread that sleeps must make progress again: only that offers what was refused once more.
  if (taken.was_full) waker_->wake();
  return std::move(taken.messages);
}

// What was there another thread may have taken meanwhile.
std::vector<Notification> ProgressEngine::wait_notifications(Duration timeout) {
  const Instant until = context_.clock.now() + timeout;
  for (Duration left = timeout;;) {
    waiting_->wait(
        {left}, [&] { return inbox_.has_some(); }, [this] { return progress_all(); });
    std::vector<Notification> taken = take_notifications();
    left = until - context_.clock.now();
    if (!taken.empty() || left <= Duration(0)) return taken;
  }
}

std::size_t ProgressEngine::waiting_pieces() {
  std::size_t pieces = 0;
  for (const auto& instance : backends_.all()) {
    run::MutexLock lock(instance->mutex);
    pieces += instance->waiting_pieces();
  }
  return pieces;
}

// By a clock of a test's, which may stand still, nobody waits here.
void ProgressEngine::flush_notifications() {
  std::size_t left = is_kernel_time_ ? waiting_pieces() : 0;
  if (left == 0) return;
  const Clock& clock = context_.clock;
  const Instant last = clock.now() + context_.options.quiesce_timeout;
  Instant until = std::min(last, clock.now() + kFarewell);
  while (left > 0 && clock.now() < until) {
    if (!progress_backends()) wait_for_work(kFarewellStep);
    const std::size_t before = std::exchange(left, waiting_pieces());
    if (left < before) until = std::min(last, clock.now() + kFarewell);
  }
}

void ProgressEngine::defer_notification(std::size_t instance, DeferredNotification deferred) {
  backends_.at(instance).defer(std::move(deferred));
  any_deferred_.store(true, std::memory_order_release);  // pairs with send_deferred()
  waker_->wake();
}

// Notifications of transfers that moved their bytes over another backend than the one that
// notifies.
void ProgressEngine::send_deferred() {
  if (!any_deferred_.load(std::memory_order_relaxed)) return;
  any_deferred_.exchange(false, std::memory_order_acq_rel);  // first: what comes then sets it again
  for (const auto& instance : backends_.all()) {
    if (!instance->has_deferred()) continue;
    with(*instance, [&]() TOWPATH_REQUIRES(instance->mutex) { instance->settle(); });
  }
}

// ---- progress ----

bool ProgressEngine::progress() {
  waiting_->note_progress();
  return progress_all();
}

bool ProgressEngine::progress_all() {
  const bool more = progress_backends();
  if (any_retired_.load(std::memory_order_relaxed)) reap_retired();
  return more;
}

bool ProgressEngine::progress_backends() {
  InstanceMask busy = 0;
  bool more = progress_free_backends(busy);
  // The poller reports one until that thread is through: rather wait than ask again and again, and
  // take the processor from it. All of them: what the waker was woken for, nothing reports again.
  for (const auto& instance : backends_.all()) {
    if (more || busy == 0) break;
    if ((busy & instance_bit(instance->index)) == 0) continue;
    run::MutexLock lock(instance->mutex);
    more = instance->progress();
  }
  finish_turn();
  return more;
}

void ProgressEngine::serve(Duration timeout) {
  waiting_->serve(timeout, [this] {
    InstanceMask busy = 0;
    const bool more = progress_free_backends(busy);
    finish_turn();
    if (any_retired_.load(std::memory_order_relaxed)) reap_retired();
    return more        ? LeaderFollower::Turn::more
           : busy != 0 ? LeaderFollower::Turn::others_are_at_it
                       : LeaderFollower::Turn::idle;
  });
}

bool ProgressEngine::progress_free_backends(InstanceMask& busy) {
  waker_->clear();
  bool more = false;
  for (const auto& instance : backends_.all()) {
    if (instance->mutex.try_lock()) {
      const run::HeldLock lock(instance->mutex);  // also when memory runs out in it
      more |= instance->progress();
    } else {
      busy |= instance_bit(instance->index);
    }
  }
  return more;
}

void ProgressEngine::finish_turn() {
  send_deferred();
  rearm_if_fired();
  waiting_->notify();
}

void ProgressEngine::note_trial(const TransferCore& transfer) {
  const Outcome outcome = transfer.outcome.load(std::memory_order_relaxed);
  if (outcome != Outcome::done && outcome != Outcome::failed)
    return;  // it says nothing of the path
  const TransferShape shape =
      TransferShape::of(transfer.op, *transfer.local, *transfer.remote, transfer.options.local);
  const TransferClass alike = shape.alike();
  const unsigned trials = context_.options.path_trials;
  PathTimes::Trial trial{.instance = transfer.instance->index, .bytes = shape.bytes};
  if (outcome == Outcome::done) trial.took = transfer.transfer_time;
  PathTimes& times = transfer.peer().times;
  if (!times.note(alike, trial, trials)) return;
  const auto best = times.known(alike, transfer.instance->index, shape.bytes, trials).time;
  const auto fastest = times.fastest(alike);
  context_.log.info(
      "a path to device memory was measured",
      {{"transfers", to_string(alike)},
       {"backend", transfer.instance->name},
       {"best", best ? cat(best->count() / 1000, " us") : std::string("failed")},
       {"fastest so far", fastest ? backends_.at(*fastest).name : std::string("none")}});
}

void ProgressEngine::note_deadline(Instant at) {
  if (!is_kernel_time_) return;
  // Relaxed: a stale value costs one needless lock, or is corrected under it.
  if (at.nanoseconds >= armed_at_.load(std::memory_order_relaxed)) return;
  run::MutexLock lock(timer_mutex_);
  if (at.nanoseconds >= armed_at_.load(std::memory_order_relaxed)) return;
  armed_at_.store(at.nanoseconds, std::memory_order_relaxed);
  timer_.arm(at);
}

void ProgressEngine::rearm_if_fired() {
  const Instant armed{armed_at_.load(std::memory_order_relaxed)};
  if (armed == Instant::never() || context_.clock.now() < armed) return;
  {
    run::MutexLock lock(timer_mutex_);
    timer_.clear();
    armed_at_.store(INT64_MAX, std::memory_order_relaxed);
  }
  for (const auto& instance : backends_.all()) {
    run::MutexLock lock(instance->mutex);
    instance->renew_deadline();
  }
}

// ---- waiting ----

// Where nothing is under way, a message may come.
bool ProgressEngine::looks_pay() const {
  bool pay = true;
  for (const auto& instance : backends_.all()) {
    if (!instance->is_moving()) continue;
    if (instance->backend->capabilities().looks_pay) return true;
    pay = false;
  }
  return pay;
}

// Small transfers over mapped memory end in post(), so a caller that only posts them and waits
// would never hear that the peer has died, nor of messages. Counts that threads lose delay it by as
// much.
void ProgressEngine::poll_once() {
  constexpr std::uint32_t kEvery = 256;  // some 300 ns for all of them
  const std::uint32_t count = polls_.load(std::memory_order_relaxed) + 1;
  polls_.store(count, std::memory_order_relaxed);
  if (count % kEvery == 0) unless_over([this] { progress_all(); });
}

Outcome ProgressEngine::wait(TransferCore& transfer, Duration timeout) {
  if (has_ended(transfer)) {
    poll_once();
  } else {
    unless_over([&] {
      waiting_->wait(
          {timeout}, [&] { return context_.is_over || has_ended(transfer); },
          [this] { return progress_all(); });
    });
  }
  return has_ended(transfer) ? transfer.outcome.load(std::memory_order_acquire) : Outcome::none;
}

void ProgressEngine::wake() {
  waker_->wake();
  waiting_->wake();
}

}  // namespace towpath::agent
