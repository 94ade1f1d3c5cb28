// PeerTier: blocks that peers have, as a tier that is only read from. What is asked for between two
// calls of progress() is leased together: one session with each peer that has some of it.
//
//   begin(get) -> [ waits ] -> ask --answer--> copy to the task's bytes, or a staging --> proven
//                    ^                    \         |
//                    `--- another owner -- a peer that fails: its blocks are lost here
//
// Blocks are proven as they come, while the ones behind them are on their way; what the next
// session is about is asked for while the one before it is pulled. A peer's blocks may
// be of another tensor-parallel degree: then each part is copied whole to a staging, proven by its
// owner's digest, and what is kept here of it is taken from there. Only a peer that is asked for a
// block alone writes into its slot. A peer that does not answer, dies, or grants what does not
// prove costs misses: its blocks are not looked for again until it reports about itself anew.
// Nothing here waits: sessions go on in progress(), which drives the manager, too. Thread: loop,
// that of the manager; so is the cache's progress().
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/kv/peers/known_peers.h>
#include <towpath/kv/tiers/block_tier.h>

namespace towpath::kv {

struct PeerTierOptions {
  agent::Agent* agent = nullptr;  ///< with the two below, outlives the tier
  blockcopy::TransferManager* manager = nullptr;
  BlockDirectory* block_directory = nullptr;
  TierIndex tier = 0;
  CacheShare share;                            ///< that is kept here
  Duration timeout = std::chrono::seconds(2);  ///< with a peer, for each step of a session
  std::uint64_t staged_blocks = 64;            ///< leased from a peer in a session
  /// Under way at once, where that is more than one peer's sessions are about: for a cache that
  /// sees to it that no peer has them all.
  std::size_t most_tasks = 0;
};

class PeerTier final : public BlockTier {
 public:
  /// Errors: invalid_argument (something is missing; tier 0; none or too many blocks staged).
  static Result<std::unique_ptr<PeerTier>> make(PeerTierOptions options);
  ~PeerTier() override;

  // ---- as a tier ----
  const std::string& name() const noexcept override { return name_; }
  TierIndex index() const noexcept override { return options_.tier; }
  std::size_t depth() const noexcept override {
    return std::max<std::size_t>(kSessionsAtOnce * options_.staged_blocks, options_.most_tasks);
  }
  bool takes_blocks() const noexcept override { return false; }
  void begin(TierTask& task) override;
  void cancel(TierTask& task) override;
  bool progress() override;
  void wait_for_work(Duration most) override;
  /// No peer is asked for it until it reports it anew.
  Status remove(BlockHash hash) override;

  // ---- with peers ----
  /// The memory that tasks name slots of, as the manager knows it; nothing: all blocks are staged.
  void land_in(std::optional<blockcopy::LayoutHandle> memory) { memory_ = memory; }
  Status learn(ConstByteSpan catalogue, std::optional<std::string_view> reporter = {}) {
    return known_.learn(catalogue, reporter);
  }
  void hear(const AgentIdentity& from, const CatalogueChanges& changes) {
    known_.hear(from, changes);
  }
  void forget(const std::string& name);
  /// An answer that came from a peer.
  void hear(const std::string& name, const PeerMessage& answer);
  const KnownPeers& known() const { return known_; }

  struct Figures {
    std::uint64_t leased = 0;      ///< blocks that came, and proved
    std::uint64_t staged = 0;      ///< of these, by way of a staging
    std::uint64_t not_proven = 0;  ///< that came, and did not
    std::uint64_t failed_sessions = 0;
    Status last_failure;
  };
  const Figures& figures() const { return figures_; }

 private:
  /// A task, for as long as nobody has ended it.
  struct Want {
    TierTask* task;
    std::size_t parts_missing;
    bool is_shared;               // by peers, each of whom may end it while another's bytes come
    KnownPeers::Names no_room{};  // peers that have it, and cannot grant it now
    bool is_unwanted = false;     // and yet bytes may land
    std::vector<bool> heads{};    // of ours, those that came; where it comes in parts
  };
  using Wants = std::deque<std::shared_ptr<Want>>;
  struct Part {
    std::shared_ptr<Want> want;
    GrantedBlock granted;
  };
  struct Session {
    std::uint64_t number = 0;
    std::uint64_t life = 0;  // of the peer, when it was asked
    Wants wants;
    Instant ends;  // timeout, for this step
    Instant ask_again;
    Duration pause;
    std::vector<BlockHash> not_now{};
    std::optional<std::vector<GrantedBlock>> granted;
    Instant lease_ends{};
    bool is_renewed = false;  // it was asked for once more, for its lease was over
    bool is_staged = true;
    std::map<std::uint64_t, Part> parts;  // by the slot that it comes to, staged or not
    std::size_t parts_left = 0;           // that were not proven yet
    std::optional<blockcopy::TransferJob> copy;
    std::shared_ptr<std::vector<layout::BlockRange>> arrived;  // since they were last taken
    bool is_over = false;
  };
  static constexpr std::size_t kSessionsAtOnce = 2;  // with a peer: one is pulled, one is asked for
  /// Of sessions that failed: tasks end, and others begin, when no byte can land any more.
  struct Leaving {
    std::vector<blockcopy::TransferJob> copies;
    Wants wants;
    Status why;

    bool is_quiesced() const { return std::ranges::all_of(copies, &blockcopy::TransferJob::ended); }
  };
  /// All that is under way with a peer.
  struct Link {
    Wants waiting;
    std::deque<Session> sessions;
    Leaving leaving;
    CacheShare staged_share;
    std::optional<layout::PhysicalLayout> staging;
    blockcopy::LayoutHandle staged;
  };

  explicit PeerTier(PeerTierOptions options);

  void place(TierTask& task, const Status& why, KnownPeers::Names no_room = {});
  void miss(Want& want, const Status& why);
  void end(Want& want, Status how);

  bool advance(const std::string& name, Link& link);
  Status start(const std::string& name, Link& link);
  Status ask(const std::string& name, Session& session);
  Status begin_to_ask(const std::string& name, Session& session);
  Result<bool> step(const std::string& name, Link& link, Session& session);
  std::vector<Part> sort_out(const std::string& name, const Session& session);
  bool may_land(const KnownPeers::Peer& peer, const Wants& wants) const;
  bool may_begin_copy(const std::string& name, const Link& link, const Session& session) const;
  Status begin_copy(const std::string& name, Link& link, Session& session);
  bool take_arrived(const std::string& name, Link& link, Session& session);
  void take_part(const std::string& name, Link& link, Session& session, std::uint64_t slot);
  Status prove(const Digest& found, const GrantedBlock& granted);
  void cut(Want& want, const Link& link, ConstByteSpan came) const;
  void finish(Want& want, const Digest& digest);
  std::uint64_t most_staged(const CacheShare& theirs) const;
  Status make_staging(const KnownPeers::Peer& peer, Link& link);
  void drop_staging(Link& link);
  void fail(const std::string& name, Link& link, const Status& cause);
  Session* find_session(const std::string& name, std::uint64_t number);
  bool is_of_this_life(const std::string& name, const Session& session) const;
  void release(const std::string& name, std::uint64_t session);
  bool is_lost(const std::string& name) const;
  Instant now() const { return options_.manager->clock().now(); }

  const PeerTierOptions options_;
  const std::string name_ = "peers";
  const std::uint64_t block_bytes_;
  KnownPeers known_;
  std::optional<blockcopy::LayoutHandle> memory_;
  std::map<std::string, Link> links_;
  std::uint64_t next_session_ = 1;
  Figures figures_;
};

}  // namespace towpath::kv
