// ProgressEngine: what makes an agent's transfers and notifications move, and waits for them.
//
// Every call into a backend but query() goes through with(): lock it, call, unlock, wake those who
// wait. The engine has no thread of its own: it works while somebody calls progress(), serve() or
// waits. Peers that were let go of stay here until nothing moves to or from them any more.
//
// Locks: a backend's mutex may be taken under retired_mutex_, and timer_mutex_ under a backend's;
// the engine calls nothing that takes another lock of the agent.
// Thread: any.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include <towpath/agent/backend_set.h>
#include <towpath/agent/leader_follower.h>
#include <towpath/agent/options.h>
#include <towpath/run/mutex.h>
#include <towpath/run/poller.h>
#include <towpath/run/timer_fd.h>
#include <towpath/run/waker.h>

namespace towpath::agent {

// Inbox: notifications that arrived and were not taken yet, within bounds.
//
// Beyond a bound a backend is asked to hold the message back; once somebody takes what is here, it
// has to be offered again, which take() says.
// Thread: any; its lock is a leaf.
class Inbox {
 public:
  struct Limits {
    std::size_t messages = 0;
    std::size_t bytes = 0;
  };
  explicit Inbox(Limits limits) : limits_(limits) {}

  /// False: full, and the message is to be offered again.
  bool put(const AgentIdentity& from, ConstByteSpan message);
  /// Sequentially consistent, as the store in put(): a waiter announces itself and then asks.
  bool has_some() const noexcept { return has_some_.load(std::memory_order_seq_cst); }
  struct Taken {
    std::vector<Notification> messages;  ///< oldest first
    bool was_full = false;               ///< some were refused meanwhile
  };
  Taken take();

 private:
  const Limits limits_;
  run::Mutex mutex_;
  std::vector<Notification> messages_ TOWPATH_GUARDED_BY(mutex_);
  std::size_t bytes_ TOWPATH_GUARDED_BY(mutex_) = 0;
  bool was_full_ TOWPATH_GUARDED_BY(mutex_) = false;
  std::atomic<bool> has_some_{false};
};

/// What an EventSource is made of. Invariant: while attached, its poller watches all that the
/// agent's own does, and its waker.
struct Listener {
  run::Poller poller;
  std::unique_ptr<run::Waker> waker;

  /// Errors: exhausted (no descriptor is free).
  static Result<std::unique_ptr<Listener>> open();
};

class ProgressEngine final : public InstanceOwner {
 public:
  /// The call of a handle, which may outlive the agent: the agent's end waits for it.
  class HandleCall {
   public:
    explicit HandleCall(ProgressEngine& engine) noexcept : engine_(engine) {
      engine_.for_handles_.fetch_add(1);
    }
    HandleCall(const HandleCall&) = delete;
    HandleCall& operator=(const HandleCall&) = delete;
    ~HandleCall();

   private:
    ProgressEngine& engine_;
  };

  /// Both outlive it. Errors: exhausted (no descriptor is free).
  static Result<std::unique_ptr<ProgressEngine>> open(const AgentContext& context,
                                                      const BackendSet& backends);

  /// A backend that is about to be published: its descriptor wakes the agent from now on.
  Status watch(const BackendInstance& instance);
  void unwatch(int fd);
  /// `listener` is woken for all that comes about from now on, and outlives detach().
  Status attach(Listener& listener);
  void detach(Listener& listener);
  /// Wakes all that wait, since nothing comes any more, and waits until the threads that work for
  /// handles have come back.
  void announce_end();

  // The lambdas say that they need the lock; that it is the one taken here clang cannot see.
  template <typename Work>
  auto with(BackendInstance& instance, Work work) TOWPATH_NO_THREAD_SAFETY_ANALYSIS {
    struct WakeAfter {
      ProgressEngine& engine;
      ~WakeAfter() { engine.waiting_->notify(); }
    } after{*this};
    run::MutexLock lock(instance.mutex);
    return work();
  }

  // ---- ending what moves ----
  using Matches = std::function<bool(const TransferCore&)>;
  /// Stops what matches and waits until it is quiesced, making progress. False: the backend cannot
  /// promise it, or not within its bound and the agent's quiesce_timeout.
  bool quiesce(BackendInstance& instance, const Matches& matches, Outcome outcome,
               const Status& why);
  /// Its paths are closed, and what was imported of it goes, once nothing moves to or from it.
  void reap_when_quiesced(PeerPtr peer);
  /// Closes the paths of those that wait for it over these backends, on which nothing moves.
  void close_retired(InstanceMask idle);

  // ---- notifications ----
  Status notify(Peer& peer, ConstByteSpan message);
  std::vector<Notification> take_notifications();
  /// The end of the agent: makes progress while notifications that were accepted leave, until one
  /// second in which none did, and up to AgentOptions::quiesce_timeout.
  void flush_notifications();
  bool has_notifications() const noexcept { return inbox_.has_some(); }
  std::vector<Notification> wait_notifications(Duration timeout);

  // ---- progress and waiting: as Agent documents them ----
  bool progress();
  /// The same for a handle that may outlive the agent: once that is over, nothing.
  bool progress_for_handle();
  int wait_fd() const noexcept { return poller_.fd(); }
  void wait_for_work(Duration timeout) { waiting_->sleep_until_work(timeout); }
  void serve(Duration timeout);
  void wake();
  Outcome wait(TransferCore& transfer, Duration timeout);

  // InstanceOwner.
  bool deliver(const AgentIdentity& from, ConstByteSpan message) override;
  void note_ended() override { waiting_->note_change(); }
  void note_trial(const TransferCore& transfer) override;
  void note_deadline(Instant at) override;
  telemetry::AgentMeter* meter() const noexcept override { return context_.meter(); }
  void defer_notification(std::size_t instance, DeferredNotification deferred) override;

 private:
  ProgressEngine(const AgentContext& context, const BackendSet& backends, run::Poller poller,
                 run::TimerFd timer);

  struct Watched {
    int fd;
    std::uint64_t tag;
  };
  Status watch(Watched watched);
  /// For a handle, which may outlive the agent. Nothing once that is over; its end waits for
  /// `work`, since what the agent was given, its clock and its log, may go behind it.
  template <typename Work>
  void unless_over(Work work);
  bool progress_all();
  bool progress_backends();
  /// `busy`: those that other threads are at.
  bool progress_free_backends(InstanceMask& busy);
  void finish_turn();
  void poll_once();
  std::size_t waiting_pieces();
  void send_deferred();
  void reap_retired();
  bool reap(const PeerPtr& peer);
  void rearm_if_fired();
  /// Of what is under way: whether looking for its end pays, rather than sleeping at once.
  bool looks_pay() const;

  const AgentContext& context_;
  const BackendSet& backends_;
  Inbox inbox_;

  run::Mutex retired_mutex_;
  std::vector<PeerPtr> retired_ TOWPATH_GUARDED_BY(retired_mutex_);
  std::atomic<bool> any_retired_{false};   // relaxed: a hint
  std::atomic<bool> any_deferred_{false};  // some instance may have some

  run::Mutex watched_mutex_;                                         // before LeaderFollower's
  std::vector<Watched> watched_ TOWPATH_GUARDED_BY(watched_mutex_);  // what poller_ watches
  std::vector<Listener*> listeners_ TOWPATH_GUARDED_BY(watched_mutex_);
  run::Poller poller_;
  std::unique_ptr<run::Waker> waker_;  // in the poller: progress is wanted, by whichever thread
  std::unique_ptr<LeaderFollower> waiting_;
  std::atomic<std::uint32_t> polls_{0};        // counted by those who wait, roughly
  std::atomic<std::uint32_t> for_handles_{0};  // calls under way
  run::Mutex timer_mutex_;
  run::TimerFd timer_ TOWPATH_GUARDED_BY(timer_mutex_);
  std::atomic<std::int64_t> armed_at_{INT64_MAX};
  const bool is_kernel_time_;  // else the timer, which runs on the kernel's time, is of no use
};

}  // namespace towpath::agent
