// TieredKeeper: a BlockKeeper over a TieredCache: host memory, and the tiers below it. What is kept
// is demoted a little later, and comes back from there when the memory is wanted for others, or
// after a restart. With peers, their blocks are the lowest tier, and those here are granted to
// them. What moves below is moved by a thread, or by progress(). Thread: loop, with peers the
// manager's.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <towpath/kv/connector/block_keeper.h>
#include <towpath/kv/connector/hint_runner.h>
#include <towpath/kv/figures.h>
#include <towpath/kv/tiers/tiered_cache.h>
#include <towpath/run/worker.h>

namespace towpath::agent {
class Agent;
}
namespace towpath::blockcopy {
class TransferManager;
}

namespace towpath::kv {

class BlockCollector;
class HandOver;
class PeerLeases;
class RelayedTier;

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
      below{};  ///< that report to this presence; none: memory only
  DigestAlgorithm algorithm = DigestAlgorithm::xxh3_64;
  TieredCacheOptions cache{};  ///< but for `batch_at_least`: blocks are demoted at once
  std::optional<KeeperPeers> peers{};
  telemetry::CacheMeterParts meter{};  ///< reported where each block was that was asked for
  /// A thread moves blocks to the tiers below, and from there: no call here reads, writes or syncs.
  /// `peers` are still served, and asked, by progress(), on the manager's thread.
  bool background = false;
};

class TieredKeeper final : public BlockKeeper {
 public:
  /// Errors: those of TieredCache::make(), and with peers of PeerTier::make() and
  /// PeerLeases::make().
  static Result<std::unique_ptr<TieredKeeper>> make(TieredKeeperParts parts);
  /// Writes what is not yet below.
  ~TieredKeeper() override;

  const layout::PhysicalLayout& memory() const override { return cache_->layout(); }
  Result<std::vector<PartialBlock>> room(SlotId count, TenantId tenant) override;
  Status keep(PartialBlock&& block, const KeptBlock& as) override;
  bool has(BlockHash hash) const override { return block_directory_->tiers_of(hash) != 0; }
  bool outlives_this(BlockHash hash) const override {
    return (block_directory_->tiers_of(hash) & lasting_) != 0;
  }
  std::unique_ptr<ComingBlocks> bring(std::span<const BlockHash> hashes,
                                      std::uint8_t priority) override;
  /// And serves peers.
  bool progress() override;
  void wait_for_work(Duration most) override;
  Status sync() override;
  News take_news() override;
  TierIndex tier_of(BlockHash hash) const override {
    return block_directory_->fastest(hash).value_or(0);
  }
  std::vector<TierCost> costs() const override { return cache_->costs(); }
  void hint(HintOrder order) override { hints_->take(std::move(order)); }
  std::vector<HintAnswer> take_hint_answers() override { return hints_->take_answers(); }
  bool has_hints() const override { return !hints_->is_idle(); }

  KeeperFigures figures() const;

  /// Null: there are none.
  PeerLeases* peers() { return leases_.get(); }
  PeerFigures granting() const;
  /// All zero where it serves nobody.
  CollectorFigures collecting() const;

 private:
  class Coming;
  Status start_background();
  Status relay(std::unique_ptr<BlockTier>& peers, agent::Agent& agent);
  void serve_or_be_served(const KeeperPeers& peers);
  void take_hints(const Clock& clock);
  bool hand_over();
  void move_until(const run::StopToken& stop);
  bool has_settled();
  explicit TieredKeeper(TieredKeeperParts& parts);

  Status open(TieredKeeperParts parts);
  Result<Digest> digest_of_slot(SlotId slot, const Digest& like) const;
  Result<BlockRef> from_memory(BlockHash hash);
  void check_name(Promoted& came, BlockHash hash);
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
  std::uint32_t settled_seen_ = 0;  // of the cache, by progress()
  std::uint64_t from_memory_ = 0;
  std::uint64_t damaged_in_memory_ = 0;
  std::optional<run::Worker> mover_;  // drives cache_; ends first
};

}  // namespace towpath::kv
