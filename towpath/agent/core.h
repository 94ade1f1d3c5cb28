// AgentCore: what stands behind an Agent and outlives it while handles point to it.
//
// Locks, in the order in which they may be taken:
//   control_      backends, registrations, peers: everything but the movement of bytes
//   slot.mutex    one backend and its active transfers
//   slot.deferred_mutex_, inbox_mutex_, pool_mutex_, timer_mutex_, those of waiting_   leaves, held
//   for moments
// Thread: any.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/agent/card.h>
#include <towpath/agent/own_rows.h>
#include <towpath/agent/peer.h>
#include <towpath/agent/slot.h>
#include <towpath/agent/waiting_room.h>
#include <towpath/run/mutex.h>
#include <towpath/run/poller.h>
#include <towpath/run/timer_fd.h>
#include <towpath/run/waker.h>
#include <towpath/telemetry/log.h>

namespace towpath::agent {

class AgentCore;

/// What stands behind a memory::Registration. Those of one list lie side by side, and go when none
/// of them is used any more.
class RegistrationCore final : public memory::RegistrationState {
 public:
  /// What its registrations tell of an agent: one for all that the same backends took.
  struct Told {
    std::weak_ptr<AgentCore> agent;
    std::string agent_name;
    std::vector<std::string> backends;
    SlotMask slots = 0;
  };

  const std::string& agent_name() const override { return told->agent_name; }
  const RegionDescriptor& descriptor() const override { return record->region; }
  std::vector<std::string> backends() const override { return told->backends; }
  bool is_registered() const override;
  Status release() override;
  bool is_of(const std::shared_ptr<AgentCore>& agent) const noexcept {
    return !agent.owner_before(told->agent) && !told->agent.owner_before(agent);
  }

  // Set once, before anybody sees it.
  std::shared_ptr<const Told> told;
  RecordPtr record;
  // Guarded by the agent's control mutex; let go of by AgentCore::release.
  SlotMask held = 0;
  memory::SharedRegion region;
  std::atomic<bool> released{false};
};

class AgentCore final : public SlotOwner, public std::enable_shared_from_this<AgentCore> {
 public:
  static Result<std::shared_ptr<AgentCore>> create(const AgentOptions& options);
  ~AgentCore() override;

  const AgentIdentity& identity() const noexcept { return self_; }
  void shut_down();
  bool is_shut_down() const noexcept { return closed_.load(std::memory_order_acquire); }

  // ---- core_backends.cc ----
  Status add_backend(std::string_view type, const backend::Params& params);
  std::vector<std::string> backends() const;
  Result<Slot*> slot_named(std::string_view type) const;
  Result<std::vector<std::optional<backend::Params>>> query(
      std::string_view backend, std::span<const RegionDescriptor> descriptors);

  // ---- core_memory.cc ----
  /// The regions are moved from.
  Result<std::vector<memory::Registration>> register_regions(
      std::span<memory::SharedRegion> regions, const memory::RegisterOptions& options);
  Status release(std::span<memory::Registration> registrations);
  Status release(std::span<RegistrationCore* const> registrations);
  std::vector<std::string> slot_names(SlotMask slots) const;

  // ---- core_peers.cc ----
  Result<Bytes> card(const CardOptions& options);
  Result<AgentIdentity> load_card(ConstByteSpan bytes);
  Status excuse_peer(std::string_view name);
  Status forget_peer(std::string_view name);
  Result<PeerInfo> peer(std::string_view name);
  std::vector<PeerInfo> peers();
  Status check_peer(std::string_view name, const DescriptorList* list);

  // ---- core_lists.cc ----
  Result<PreparedList> prepare(const DescriptorList& list, std::optional<std::string_view> peer);
  Result<PreparedList> prepare(const PlainList& list, std::optional<std::string_view> peer);

  // ---- core_transfers.cc ----
  Result<Transfer> create_transfer(TransferOp op, const PlainList& local, std::string_view peer,
                                   const PlainList& remote, const TransferOptions& options);
  Result<Transfer> make_transfer(TransferOp op, const PreparedList& local,
                                 const PreparedList& remote, const TransferOptions& options);
  Result<Explanation> explain(TransferOp op, const PreparedList& local, const PreparedList& remote,
                              const TransferOptions& options);
  Explanation explain(const TransferCore& transfer);
  Status post(TransferCore& transfer, const PostOptions& options);
  void cancel(TransferCore& transfer);
  Outcome wait(TransferCore& transfer, Duration timeout);
  /// The last handle is gone.
  void abandon(std::shared_ptr<TransferCore> transfer);
  bool captures_telemetry() const noexcept { return options_.capture_telemetry; }

  // ---- core_progress.cc ----
  Status notify(std::string_view peer, ConstByteSpan message);
  std::vector<Notification> take_notifications();
  std::vector<Notification> wait_notifications(Duration timeout);
  bool progress();
  int wait_fd() const noexcept { return poller_->fd(); }
  void wait_for_work(Duration timeout);
  void serve(Duration timeout);
  void wake();

  // SlotOwner.
  bool deliver(const AgentIdentity& from, ConstByteSpan message) override;
  void note_ended() override;
  void note_trial(const TransferCore& transfer) override;
  void note_deadline(Instant at) override;
  telemetry::AgentMeter* meter() const noexcept override { return options_.meter; }
  void defer_notification(std::size_t slot, DeferredNotification deferred) override;

 private:
  friend class PeerResolver;
  /// What a backend is chosen by.
  struct Choice {
    TransferOp op = TransferOp::read;
    const PreparedSide* local = nullptr;
    const PreparedSide* remote = nullptr;
    const TransferOptions* options = nullptr;

    std::uint64_t descriptors() const { return options->local.count_in(local->list.size()); }
    /// Of the selection, taking descriptors to be about equal: the choice need not be exact.
    std::uint64_t bytes() const {
      const std::uint64_t size = local->list.size();
      return size == 0 ? 0 : local->list.total_bytes() / size * descriptors();
    }
    /// By the times of transfers that were alike; else what backends declare decides. Which way to
    /// a GPU's memory is the fastest is up to buses and drives that no declaration knows.
    bool is_measured() const {
      return local->list.kind() == MemoryKind::device || remote->list.kind() == MemoryKind::device;
    }
    TransferClass alike() const {
      return TransferClass::of(op, local->list.kind(), remote->list.kind(), bytes(), descriptors());
    }
  };
  /// What one possible way should cost.
  struct Offer {
    std::size_t slot = 0;
    Duration cost{0};
    Duration margin{0};        // 0: not known
    bool is_measured = false;  // else declared
    bool wants_trial = false;
    bool has_failed = false;  // whenever it was tried
  };
  struct SlotOrder {  // the slots to look at, in order
    std::array<std::size_t, kMaxSlots> index{};
    std::size_t count = 0;
    bool asked = false;  // by the user, by name
    std::span<const std::size_t> all() const { return {index.data(), count}; }
  };

  explicit AgentCore(const AgentOptions& options, AgentIdentity self);

  // Every call into a slot goes through here: lock, call, unlock, wake those who wait.
  // The lambdas say that they need the lock; that it is the one taken here clang cannot see.
  template <typename Work>
  auto with_slot(Slot& slot, Work work) TOWPATH_NO_THREAD_SAFETY_ANALYSIS {
    struct WakeAfter {
      AgentCore& core;
      ~WakeAfter() { core.waiting_->tell(); }
    } after{*this};
    run::MutexLock lock(slot.mutex);
    return work();
  }

  Status open_self(std::size_t slot) TOWPATH_REQUIRES(control_);
  /// A region that is about to be registered.
  struct Joining {
    RecordPtr record;
    SlotMask offered_before = 0;
    SlotMask taken = 0;  ///< slots whose backends have it for this registration
    Status refusal;      ///< of the backend that was asked last
    Status failure;      ///< why a backend before did not take it
  };
  /// By which backends, and whether all of them must take them.
  struct Takers {
    SlotMask named = 0;  ///< 0: whoever takes the kind
    bool must = false;
  };
  /// Puts what was made into `made`, on failure too: then it has to go when control_ is free again.
  Status register_some(std::span<memory::SharedRegion> regions,
                       const memory::RegisterOptions& options,
                       std::vector<memory::Registration>& made);
  Result<Takers> takers(const memory::RegisterOptions& options) const TOWPATH_REQUIRES(control_);
  Status find_records(std::span<const memory::SharedRegion> regions, std::span<Joining> all)
      TOWPATH_REQUIRES(control_);
  Status join(std::span<Joining> all, const Takers& by) TOWPATH_REQUIRES(control_);
  Status join(std::span<Joining> all, Slot& slot, bool must) TOWPATH_REQUIRES(control_);
  Status no_taker(MemoryKind kind) const TOWPATH_REQUIRES(control_);
  void tell_refusal(const Slot& slot, MemoryKind kind, const Status& why)
      TOWPATH_REQUIRES(control_);
  /// `is_told`: cards tell of this slot.
  Status attach(MemoryRecord& record, Slot& slot, bool is_told) TOWPATH_REQUIRES(slot.mutex);
  std::shared_ptr<const RegistrationCore::Told> told_of(SlotMask taken) TOWPATH_REQUIRES(control_);
  /// A registration that is about to go.
  struct Leaving {
    RegistrationCore* registration = nullptr;
    SlotMask last = 0;   ///< slots in which it is the last of its record
    SlotMask moves = 0;  ///< of them, those in which somebody may still move its bytes
    Status status;
  };
  // One after the other; only the second waits.
  /// Nothing begins on the memory any more. What nobody moves goes at once. `pieces`: what peers
  /// are in the middle of.
  void revoke(std::span<Leaving> all, Slot& slot, std::unique_ptr<backend::PeerPieces>& pieces)
      TOWPATH_REQUIRES(control_);
  void quiesce(std::span<Leaving> all, Slot& slot, backend::PeerPieces* pieces);
  void drop_quiesced(std::span<Leaving> all, Slot& slot) TOWPATH_REQUIRES(control_);
  Status finish_release(Leaving& one) TOWPATH_REQUIRES(control_);
  /// Whether it is the last of its record in the slot.
  bool leave(Leaving& one, Slot& slot) TOWPATH_REQUIRES(control_);
  void note_dropped(Leaving& one, const Slot& slot) TOWPATH_REQUIRES(control_);
  /// Of all memory that is registered here. False: a peer stands still in the middle of something.
  bool revoke_all(Slot& slot);
  /// ok, or the peer that was in the middle of something for too long.
  Status wait_for(backend::PeerPieces* pieces) const;
  bool make_quiet(Slot& slot, const std::function<bool(const TransferCore&)>& matches,
                  Outcome outcome, const Status& why);

  Result<Bytes> make_card(const CardOptions& options) TOWPATH_REQUIRES(control_);
  Card card_head(const CardOptions& options) const TOWPATH_REQUIRES(control_);
  Result<std::vector<const MemoryRecord*>> records_to_tell(const DescriptorList& only)
      TOWPATH_REQUIRES(control_);
  std::vector<std::size_t> slots_told(const Card& card) const TOWPATH_REQUIRES(control_);
  Result<PeerPtr> find_peer(std::string_view name) const TOWPATH_REQUIRES(control_);
  Result<PeerPtr> new_peer(const Card& card) TOWPATH_REQUIRES(control_);
  void update_regions(Peer& peer, const Card& card, ToldRegions told) TOWPATH_REQUIRES(control_);
  void drop_import(const RecordPtr& record) TOWPATH_REQUIRES(control_);
  void retire(const PeerPtr& peer, Outcome outcome, const Status& why) TOWPATH_REQUIRES(control_);
  PeerInfo info_of(const Peer& peer) TOWPATH_REQUIRES(control_);
  /// By the first backend that does. Returns one that none could import; null: all were.
  const MemoryRecord* import_by_some(Peer& peer, std::span<const RegionEntry* const> entries)
      TOWPATH_REQUIRES(control_);
  std::vector<Slot*> slots_soonest_first() const TOWPATH_REQUIRES(control_);
  /// What one of the list's open_slots() has not imported yet. False: part of the list does not
  /// stand any more, or the agent, and nothing was done.
  bool import_rest(const PreparedSide& side, Slot& slot);
  /// What import() works on, used again for each part of a list.
  struct ImportRoom {
    std::vector<backend::Import> list;
    std::vector<MemoryRecord*> records;
  };
  void import(Peer& peer, Slot& slot, std::span<const RegionEntry* const> entries, ImportRoom& room)
      TOWPATH_REQUIRES(control_);
  void tell_refusal(Peer& peer, const Slot& slot, const MemoryRecord& record)
      TOWPATH_REQUIRES(control_);

  /// What a transfer is made between; with the own ones, which go back to spare_sides_ with it.
  struct Sides {
    std::shared_ptr<const PreparedSide> local;
    std::shared_ptr<const PreparedSide> remote;
    std::shared_ptr<PreparedSide> own_local = nullptr;
    std::shared_ptr<PreparedSide> own_remote = nullptr;
  };

  /// `peer`: null for the agent's own. Errors: not_ready, not_found, peer_lost.
  Status set_whose(PreparedSide& side, std::optional<std::string_view> peer)
      TOWPATH_REQUIRES(control_);
  Status resolve_side(PreparedSide& side, const PlainList& list,
                      std::optional<std::string_view> peer) TOWPATH_REQUIRES(control_);
  std::shared_ptr<PreparedSide> take_side();
  void put_back(std::shared_ptr<PreparedSide> side);
  Result<Transfer> make_between(TransferOp op, const Sides& sides, const TransferOptions& options);
  static bool is_possible(const Choice& choice, const Slot& slot);
  /// The same, or it has yet to be asked for the peer's memory.
  static bool may_be_possible(const Choice& choice, const Slot& slot);
  void find_out(const Choice& choice, const SlotOrder& order);
  std::optional<Offer> best_offer(const Choice& choice, const SlotOrder& order);
  Offer offer_of(const Choice& choice, Slot& slot);
  WayTimes::Known known_of(const Choice& choice, const Slot& slot) const;
  static bool is_better(const Offer& offer, const Offer& than);
  static std::string_view reason_of(const Offer& offer, const Offer& chosen);
  Status check_sides(const PreparedList& local, const PreparedList& remote) const;
  Result<SlotOrder> order_of(const Choice& choice) const;
  Result<Offer> choose(const Choice& choice);
  Status refusal(const Choice& choice, Slot& slot) TOWPATH_REQUIRES(control_);
  Status no_backend(const Choice& choice, const SlotOrder& order);
  bool tells_sooner(const Slot& slot, std::size_t than) const;
  std::string path_over(const Choice& choice, Slot& slot) TOWPATH_REQUIRES(control_);
  std::shared_ptr<TransferCore> take_from_pool(Slot& slot);
  /// Null: nobody counts.
  telemetry::Flow* flow_of(const TransferCore& transfer) const;
  Status build_segments(TransferCore& transfer);
  struct Posting {
    Instant begin;
    std::optional<std::size_t> reserved_bytes = std::nullopt;  ///< of a message over the same slot
  };
  Status post_on_slot(TransferCore& transfer, const PostOptions& options, const Posting& posting);
  /// The slot over which notifications for the peer travel. Errors: unsupported.
  Result<Slot*> notifier_of(const Peer& peer) const;
  // Under the mutex of its slot:
  bool is_current(TransferCore& transfer);
  Status check_postable(TransferCore& transfer) TOWPATH_NO_THREAD_SAFETY_ANALYSIS;
  void start(TransferCore& transfer, const PostOptions& options, Instant begin);

  void send_deferred();
  void bury_retired() TOWPATH_REQUIRES(control_);
  bool progress_all();
  /// Of a wait for what has ended: makes progress now and then.
  void glance();
  bool progress_slots();
  bool progress_free_slots(Slot*& busy);
  void tell_of_progress();
  void bury_if_free();
  void rearm_if_fired();
  /// Of what is under way: whether looking for its end pays, rather than sleeping at once.
  bool looks_pay() const;

  const AgentOptions options_;
  const AgentIdentity self_;
  const Clock& clock_;
  telemetry::NullSink silence_;
  telemetry::Log log_;

  mutable run::Mutex control_;
  // Slots are only ever added, below slot_count_: readers load the count first (acquire, pairs with
  // the release in add_backend) and then need no lock to walk them.
  std::array<std::unique_ptr<Slot>, kMaxSlots> slots_;
  std::atomic<std::size_t> slot_count_{0};
  std::span<const std::unique_ptr<Slot>> slots() const noexcept {
    return {slots_.data(), slot_count_.load(std::memory_order_acquire)};
  }
  RegionIndex regions_ TOWPATH_GUARDED_BY(control_);
  OwnRows rows_ TOWPATH_GUARDED_BY(control_);
  std::shared_ptr<const RegistrationCore::Told> last_told_ TOWPATH_GUARDED_BY(control_);
  std::map<std::string, PeerPtr, std::less<>> peers_ TOWPATH_GUARDED_BY(control_);
  PeerPtr self_peer_;  // set once, in create()
  std::vector<PeerPtr> retired_ TOWPATH_GUARDED_BY(control_);
  std::atomic<bool> any_retired_{false};
  std::vector<RecordPtr> unquiet_ TOWPATH_GUARDED_BY(control_);  // kept alive for good
  /// Of which the log knows that a backend refused regions: a bit for each kind.
  std::array<std::uint32_t, kMaxSlots> kinds_refused_ TOWPATH_GUARDED_BY(control_){};
  std::uint64_t card_generation_ TOWPATH_GUARDED_BY(control_) = 1;
  Bytes last_card_ TOWPATH_GUARDED_BY(control_);  // the full one of last_card_generation_
  std::uint64_t last_card_generation_ TOWPATH_GUARDED_BY(control_) = 0;
  std::atomic<bool> closed_{false};
  std::shared_ptr<AgentCore> immortal_;  // set when something never got quiet
  // Counts regions that went away; a transfer checked at an older count looks at its records again.
  std::atomic<std::uint64_t> memory_generation_{1};

  run::Mutex inbox_mutex_;
  std::vector<Notification> inbox_ TOWPATH_GUARDED_BY(inbox_mutex_);
  std::size_t inbox_bytes_ TOWPATH_GUARDED_BY(inbox_mutex_) = 0;
  std::atomic<bool> inbox_waiting_{false};
  std::atomic<bool> inbox_refused_{false};  // a backend holds messages back until there is room

  run::Mutex pool_mutex_;
  std::vector<std::shared_ptr<TransferCore>> pool_ TOWPATH_GUARDED_BY(pool_mutex_);
  std::vector<std::shared_ptr<PreparedSide>> spare_sides_ TOWPATH_GUARDED_BY(pool_mutex_);

  std::unique_ptr<run::Poller> poller_;
  std::unique_ptr<run::Waker> waker_;  // in the poller: progress is wanted, whoever makes it
  std::unique_ptr<WaitingRoom> waiting_;
  std::atomic<std::uint32_t> glances_{0};  // counted by whoever waits, roughly
  run::Mutex timer_mutex_;
  std::unique_ptr<run::TimerFd> timer_ TOWPATH_GUARDED_BY(timer_mutex_);
  std::atomic<std::int64_t> armed_at_{INT64_MAX};
  const bool is_kernel_time_;  // else the timer, which runs on the kernel's time, is of no use
};

}  // namespace towpath::agent
