// Transfers: makes transfers between prepared sides, posts them, and takes back what they needed.
//
// What a transfer is made of (its state, its operation, the room of its lists) is used again for
// the next one over the same backend, so that making one allocates little and posting one nothing.
//
// Locks: a backend's mutex is taken before the pool's; the peer book's when a backend has yet to
// import a peer's memory, with none of these.
// Thread: any; one thread at a time posts a transfer.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/agent/backend_chooser.h>
#include <towpath/agent/peer_book.h>
#include <towpath/agent/progress_engine.h>
#include <towpath/agent/transfer.h>
#include <towpath/run/mutex.h>

namespace towpath::agent {

class Transfers {
 public:
  /// All of them outlive it.
  Transfers(const AgentContext& context, const BackendSet& backends, ProgressEngine& engine,
            PeerBook& peers)
      : context_(context), backends_(backends), engine_(engine), peers_(peers) {
    pool_.reserve(kMaxPooled);  // so that letting go of a transfer needs no memory
    spare_sides_.reserve(kMaxSpare);
  }

  /// What a transfer is made between; with the own ones, which are used again when it is gone.
  struct Sides {
    std::shared_ptr<const PreparedSide> local;
    std::shared_ptr<const PreparedSide> remote;
    std::shared_ptr<PreparedSide> own_local = nullptr;
    std::shared_ptr<PreparedSide> own_remote = nullptr;
  };

  /// An empty side, for any number of transfers.
  std::shared_ptr<PreparedSide> new_side() const;
  /// The same for a single transfer: in the room of a longer list that was one before.
  std::shared_ptr<PreparedSide> take_side();

  /// Errors: invalid_argument (a side is missing, swapped or another agent's).
  Result<Sides> sides_of(const PreparedList& local, const PreparedList& remote) const;
  /// Takes the sides. Errors: Agent::make_transfer().
  Result<Transfer> make(TransferOp op, Sides&& sides, const TransferOptions& options);
  Result<Explanation> explain(TransferOp op, const Sides& sides, const TransferOptions& options);
  Explanation explain(const TransferCore& transfer);

  Status post(TransferCore& transfer, const PostOptions& options);
  void cancel(TransferCore& transfer);
  /// The last handle is gone.
  void abandon(std::shared_ptr<TransferCore> transfer) noexcept;

  /// The end of the agent: lets go of what is kept for transfers to come, and of the operations of
  /// those that have handles still, unless they move: the backends where none does may go then.
  void close();

 private:
  /// What a backend is chosen for.
  struct Choice {
    TransferShape shape;
    const PreparedSide& local;
    const PreparedSide& remote;
    const TransferOptions& options;
  };
  struct Order {  // the backends to consider, in order
    std::array<std::size_t, kMaxInstances> index{};
    std::size_t count = 0;
    bool asked = false;  // by the user, by name
    std::span<const std::size_t> all() const { return {index.data(), count}; }
  };
  struct Posting {
    Instant begin;
    std::optional<std::size_t> reserved_bytes =
        std::nullopt;        ///< of a message over the same instance
    bool has_begun = false;  ///< from there on its end settles the room of its message
  };

  // ---- transfers_choice.cc ----
  Choice choice_of(TransferOp op, const Sides& sides, const TransferOptions& options) const;
  Result<Order> order_of(const Choice& choice) const;
  Result<Offer> choose(const Choice& choice);
  BackendChooser consider(const Choice& choice, const Order& order);
  Offer offer_of(const Choice& choice, BackendInstance& instance);
  PathTimes::Known known_of(const Choice& choice, const BackendInstance& instance) const;
  void import_everywhere(const Choice& choice, const Order& order);
  Status refusal(const Choice& choice, BackendInstance& instance);
  Status no_backend(const Choice& choice, const Order& order);
  Candidate candidate_of(const Choice& choice, BackendInstance& instance,
                         const BackendChooser& chosen, bool asked);
  std::string path_over(const Choice& choice, BackendInstance& instance);

  std::shared_ptr<TransferCore> take_from_pool(BackendInstance& instance);
  void note_made(const std::shared_ptr<TransferCore>& transfer);
  void put_back(std::shared_ptr<PreparedSide> side);
  /// Null: nobody counts.
  telemetry::Flow* flow_of(const TransferCore& transfer) const;
  Status build_segments(TransferCore& transfer);
  static Status check_writable(const TransferCore& transfer);
  Status post_over(BackendInstance& instance, TransferCore& transfer, const PostOptions& options,
                   Posting& posting);
  /// `replacement`: of the notification, which is taken; none: it stays.
  void start(TransferCore& transfer, std::optional<Bytes>& replacement, Instant begin,
             const PostOptions& options) noexcept;
  // Under the mutex of its backend:
  void cancel_locked(TransferCore& transfer) TOWPATH_NO_THREAD_SAFETY_ANALYSIS;
  bool is_current(TransferCore& transfer) const;
  Status check_postable(TransferCore& transfer) TOWPATH_NO_THREAD_SAFETY_ANALYSIS;

  const AgentContext& context_;
  const BackendSet& backends_;
  ProgressEngine& engine_;
  PeerBook& peers_;

  static constexpr std::size_t kMaxPooled = 256;
  static constexpr std::size_t kMaxSpare = 8;

  run::Mutex pool_mutex_;
  std::vector<std::shared_ptr<TransferCore>> pool_ TOWPATH_GUARDED_BY(pool_mutex_);
  std::vector<std::shared_ptr<PreparedSide>> spare_sides_ TOWPATH_GUARDED_BY(pool_mutex_);
  std::vector<std::weak_ptr<TransferCore>> made_ TOWPATH_GUARDED_BY(pool_mutex_);  // some have gone
  std::size_t sweep_at_ TOWPATH_GUARDED_BY(pool_mutex_) = kMaxPooled;              // of made_
};

}  // namespace towpath::agent
