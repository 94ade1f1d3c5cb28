// TieredKeeper: where a worker of an engine keeps the blocks that the engine may want again: host
// memory, and the tiers below it, in a TieredCache.
//
//   room() --> the worker fills the slots --> keep(): digested, and held from now on
//   bring() --progress()--> blocks in host memory, each proven against its digest just before
//
// What is kept is demoted a little later, and comes back from there when the memory is wanted for
// others, or after a restart. With peers, their blocks are the lowest tier, and those here are
// granted to them. What moves below is moved by a thread, or by progress(); nothing waits but
// hold(). Invariants: a block that comes has the bytes that keep() was given, or there is no block.
// Its digest is salted with its hash, so that a block in another's place does not pass. Thread:
// loop, with peers the manager's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/kv/blocks/block_directory.h>
#include <towpath/kv/blocks/block_pool.h>
#include <towpath/kv/connector/orders.h>
#include <towpath/kv/figures.h>
#include <towpath/kv/tiers/tiered_cache.h>
#include <towpath/layout/physical_layout.h>

namespace towpath::agent {
class Agent;
}
namespace towpath::blockcopy {
class TransferManager;
}
namespace towpath::run {
class StopToken;
class Worker;
}  // namespace towpath::run

namespace towpath::kv {

class BlockCollector;
class HandOver;
class HintRunner;
class PeerLeases;
class RelayedTier;
class TieredKeeper;

struct KeeperPeers {
  agent::Agent* agent = nullptr;  ///< with `manager`, outlives the keeper
  blockcopy::TransferManager* manager = nullptr;
  std::string name_space;         ///< blocks are leased only within it
  std::uint64_t first_layer = 0;  ///< of the model, that the keeper's memory has
  std::uint64_t first_head = 0;
  Duration lease = std::chrono::seconds(10);
  Duration timeout = std::chrono::seconds(2);  ///< of a peer, in each step of a session
  std::uint64_t staged_blocks = 64;            ///< leased from a peer in a session
  /// Serves a cache: what peers have is taken from them.
  bool collects = false;
  /// The peer is a server: what is kept here is held until it has it.
  bool hands_over = false;
};

struct TieredKeeperParts {
  const Clock* clock = nullptr;  ///< outlives the keeper
  layout::PhysicalLayout memory;
  std::unique_ptr<BlockDirectory> block_directory = std::make_unique<BlockDirectory>();
  std::vector<std::unique_ptr<BlockTier>>
      below{};  ///< that report to this directory; none: memory only
  DigestAlgorithm algorithm = DigestAlgorithm::xxh3_64;
  TieredCacheOptions cache{};  ///< but for `batch_at_least`: blocks are demoted at once
  std::optional<KeeperPeers> peers{};
  telemetry::CacheMeterParts meter{};  ///< reported where each block was that was asked for
  /// A thread moves blocks to the tiers below, and from there: no call here reads, writes or syncs.
  /// `peers` are still served, and asked, by progress(), on the manager's thread.
  bool background = false;
};

struct KeptBlock {
  BlockHash hash = 0;
  std::uint8_t priority = kUsualPriority;
  TenantId tenant = 0;
  std::optional<BlockHash> parent{};  ///< the block before it in its prompt; none: the first
};

/// Blocks that were asked for together (TieredKeeper::bring()), on their way to memory while their
/// keeper makes progress. When it goes, those that have not come are given up. The keeper outlives
/// it.
class ComingBlocks {
 public:
  /// A block is there, and its bytes stay as they are while its handle lives; or `status` says why
  /// not: not_found; corrupt (quarantined); exhausted (no slot to bring it to, or too many wait:
  /// ask again when some have gone); what reading it failed with.
  struct Came {
    std::size_t index = 0;  ///< among those that were asked for
    BlockRef block;
    Status status;
  };
  /// What came since the last call, or cannot come: each is reported once, in any order.
  std::vector<Came> take();
  /// How many take() has not reported.
  std::size_t left() const { return known_.size() + below_.size() - promoted_; }

 private:
  friend class TieredKeeper;
  struct OfLowerTiers {
    std::size_t index;
    BlockHash hash;
  };
  ComingBlocks(TieredKeeper& keeper, std::span<const CachedBlock> blocks, std::uint8_t priority);

  TieredKeeper& keeper_;
  std::vector<Came> known_;  // what was in memory
  std::vector<OfLowerTiers> below_;
  std::optional<Promotion> rising_;  // those below, in their order
  std::size_t promoted_ = 0;         // of them
};

class TieredKeeper {
 public:
  /// Errors: those of TieredCache::make(), and with peers of PeerTier::make() and
  /// PeerLeases::make().
  static Result<std::unique_ptr<TieredKeeper>> make(TieredKeeperParts parts);
  /// Writes what is not yet below.
  ~TieredKeeper();
  TieredKeeper(const TieredKeeper&) = delete;
  TieredKeeper& operator=(const TieredKeeper&) = delete;

  /// Host memory: the block of a handle lies in the block of the same number here.
  const layout::PhysicalLayout& memory() const { return cache_->layout(); }

  /// For blocks of this tenant (0: of none), all of them or none. Errors: exhausted (the rest is
  /// held, or others').
  Result<std::vector<PartialBlock>> room(SlotId count, TenantId tenant);
  /// It goes on to the lower tiers in its time, the more urgent first.
  /// Errors: those of digesting and registering; the block is then given back.
  Status keep(PartialBlock&& block, const KeptBlock& as);

  bool has(BlockHash hash) const { return block_directory_->tiers_of(hash) != 0; }
  /// Whether it is where this process's end does not reach: in files and objects, synced; with a
  /// server.
  bool outlives_this(BlockHash hash) const {
    return (block_directory_->tiers_of(hash) & lasting_) != 0;
  }
  /// Those in memory are proven now; the others are brought there together, the more urgent first.
  /// Their tenants are those that the BlockDirectory has.
  std::unique_ptr<ComingBlocks> bring(std::span<const CachedBlock> blocks, std::uint8_t priority);
  /// Brings, and waits for all: as many answers, in order. Called while it waits: what else this
  /// thread has to drive.
  std::vector<Result<BlockRef>> hold(std::span<const BlockHash> hashes,
                                     const std::function<void()>& meanwhile = {});

  /// Does a bounded amount of work: bringing, writing what is not yet on the lower tiers, serving
  /// peers. True: there is more.
  bool progress();
  /// Sleeps until progress() may bring something, or so long; not at all where nothing is awaited.
  void wait_for_work(Duration most);
  /// What was kept so far, and is held yet, survives this process. Errors: of the lower tiers;
  /// unavailable (a server did not take some since the last call, and does not have them now).
  Status sync();

  struct News {
    bool is_anew = false;  ///< forget what was reported before: all is reported from the start
    bool goes_on = false;  ///< of these, all but the first: too much has changed since the last
    bool more_follows = false;      ///< the next calls have more of what there was from the start
    std::vector<BlockHash> stored;  ///< may be asked for; some twice
    std::vector<BlockHash> lost;    ///< that were asked for and are gone
  };
  /// A report has room for a quarter more.
  static constexpr std::size_t kMostReported = std::size_t{3} << 20U;
  /// Since the last call; the first says what was there from the start. Where all is reported, so
  /// many blocks: the next calls have the rest, beside what has changed.
  News take_news(std::size_t most = kMostReported);
  /// It would say something.
  bool has_news() const {
    return !is_reported_ || !unreported_.empty() || !news_.events.empty() || news_.some_were_lost ||
           block_directory_->has_events();
  }
  /// Does it as it makes progress; each is answered once.
  void hint(HintOrder order);
  std::vector<HintAnswer> take_hint_answers();
  /// A hint is under way; one that waits for its time is not.
  bool has_hints() const;

  /// The fastest tier that has the block now; 0: memory.
  TierIndex tier_of(BlockHash hash) const { return block_directory_->fastest(hash).value_or(0); }
  /// Of the tiers below memory, as measured so far.
  std::vector<TierCost> costs() const { return cache_->costs(); }
  KeeperFigures figures() const;

  /// Null: there are none.
  PeerLeases* peers() { return leases_.get(); }
  PeerFigures granting() const;
  /// All zero where it serves nobody.
  CollectorFigures collecting() const;

 private:
  friend class ComingBlocks;
  Status start_background();
  Status relay(std::unique_ptr<BlockTier>& peers, agent::Agent& agent);
  void serve_or_be_served(const KeeperPeers& peers);
  std::string owners_of(BlockHash hash) const;
  void take_hints(const Clock& clock);
  bool hand_over();
  void move_until(const run::StopToken& stop);
  bool has_settled();
  explicit TieredKeeper(TieredKeeperParts& parts);

  Status open(TieredKeeperParts parts);
  Result<Digest> digest_of_slot(SlotId slot, const Digest& like) const;
  Result<BlockRef> from_memory(BlockHash hash);
  Status check_name(BlockRef& block, BlockHash hash);
  void hear_news();

  const DigestAlgorithm algorithm_;
  std::unique_ptr<BlockDirectory> block_directory_;
  std::unique_ptr<TieredCache> cache_;  // reports to block_directory_
  TierIndex peers_tier_ = 0;            // 0: there is none
  std::uint16_t below_ = 0;             // tiers that take blocks, a bit each
  std::uint16_t lasting_ = 0;           // with these what a server has
  agent::Agent* agent_ = nullptr;       // of peers
  RelayedTier* relayed_ = nullptr;      // the cache's, where it has a thread
  std::unique_ptr<PeerLeases> leases_;  // grants from cache_
  std::unique_ptr<BlockCollector> collector_;
  std::unique_ptr<HandOver> hand_over_;
  std::unique_ptr<HintRunner> hints_;
  BlockDirectory::Events news_;  // that were not taken
  bool is_reported_ = false;
  std::vector<BlockEvent> unreported_;  // of what was there
  std::uint32_t settled_seen_ = 0;      // of the cache, by progress()
  std::uint64_t from_memory_ = 0;
  std::uint64_t damaged_in_memory_ = 0;
  std::unique_ptr<run::Worker> mover_;  // drives cache_; ends first
};

}  // namespace towpath::kv
