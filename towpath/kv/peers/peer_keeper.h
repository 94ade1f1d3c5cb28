// PeerKeeper: a BlockKeeper that lends its blocks to others of its kind, and borrows theirs. Put
// over another keeper, it makes a peer's blocks blocks that can be held.
//
//   join(rendezvous), or catalogue() by any way  --->  learn() at the others
//   prepare(hashes), hold(hash)   what is not here is borrowed: asked for, copied, proven, kept
//   here
//
// A peer's blocks may be of another tensor-parallel degree: each part is copied whole and proven by
// its owner's digest, and then what this rank has of it is taken from there. A peer that does not
// answer, dies, or lends what does not prove costs misses: its blocks are not looked for again
// until it tells a new catalogue.
// Those who borrow must have learned of each other: an answer goes to whom the owner knows.
// The agent's notifications are all for this keeper. Thread: loop, that of the manager.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/kv/peers/block_lender.h>
#include <towpath/kv/peers/catalogue_exchange.h>
#include <towpath/kv/transfer_manager.h>

namespace towpath::kv {

struct OpenPackage;

struct PeerKeeperOptions {
  agent::Agent* agent = nullptr;  ///< with `manager`, outlives the keeper
  TransferManager* manager = nullptr;
  std::string name_space;         ///< blocks are borrowed only within it
  std::uint64_t first_layer = 0;  ///< of the model, that the keeper under this one has
  std::uint64_t first_head = 0;
  Duration lease = std::chrono::seconds(10);
  Duration patience = std::chrono::seconds(2);  ///< with a peer, for each step of a session
  std::uint64_t staged_blocks = 64;             ///< borrowed at once
  /// Called while this waits for a peer: what else this thread has to drive. Not this keeper.
  std::function<void()> meanwhile;
};

class PeerKeeper final : public BlockKeeper {
 public:
  /// Errors: invalid_argument (no agent, manager or keeper), those of registering memory.
  static Result<std::unique_ptr<PeerKeeper>> make(PeerKeeperOptions options,
                                                  std::unique_ptr<BlockKeeper> own);
  ~PeerKeeper() override;

  // ---- peers ----
  /// Meets others at `place` from now on, as progress() is called.
  void join(std::unique_ptr<rendezvous::Rendezvous> place, CatalogueExchangeOptions options = {});
  /// What others need to borrow from here. Errors: those of exporting the layouts.
  Result<Bytes> catalogue();
  /// Grows when there is reason to tell the catalogue: blocks came or went here, or somebody was
  /// met who may not know it.
  std::uint64_t edition() const { return edition_; }
  const std::string& name() const { return options_.agent->name(); }
  /// A peer's, for the first time or again; refused ones, and the last one again, change nothing.
  /// Errors: those of reading it; invalid_argument (another name space, or a cache that has nothing
  /// of this one's); already_exists (another agent of this name).
  Status learn(ConstByteSpan catalogue);
  void forget(const std::string& peer);

  // ---- as a keeper ----
  const layout::PhysicalLayout& memory() const override { return own_->memory(); }
  Result<std::vector<PartialBlock>> room(SlotId count) override { return own_->room(count); }
  Status keep(PartialBlock&& block, BlockHash hash) override {
    return own_->keep(std::move(block), hash);
  }
  bool has(BlockHash hash) const override { return own_->has(hash) || can_borrow(hash); }
  void prepare(std::span<const BlockHash> hashes) override;
  Result<BlockRef> hold(BlockHash hash) override;
  bool progress() override;
  Status sync() override { return own_->sync(); }
  News take_news() override;

  struct Figures {
    std::uint64_t peers = 0;       ///< that are known now
    std::uint64_t borrowed = 0;    ///< blocks that came, and proved
    std::uint64_t not_proven = 0;  ///< that came, and did not
    std::uint64_t lent = 0;
    std::uint64_t failed_sessions = 0;
    Status last_failure;
  };
  Figures figures() const;

 private:
  struct Peer {
    Digest catalogue;  // of the last one
    LayoutHandle layout;
    layout::LayoutConfig config;
    std::uint64_t first_head = 0;
    std::unordered_set<BlockHash> hashes;
    std::optional<layout::PhysicalLayout> staging;
    LayoutHandle staged;
  };
  /// Parts of blocks that lie, proven, in a peer's staging.
  using Staged = std::unordered_map<BlockHash, std::uint64_t>;

  PeerKeeper(PeerKeeperOptions options, std::unique_ptr<BlockKeeper> own)
      : options_(std::move(options)),
        own_(std::move(own)),
        lender_({.clock = &options_.manager->clock(), .lease = options_.lease}, *own_) {}

  Result<Peer> open(const Catalogue& all, const OpenPackage& package) const;
  bool fits(const Peer& peer, std::uint64_t first_layer) const;
  bool overlaps(const Peer& peer) const;
  std::vector<std::string> owners_of(BlockHash hash) const;
  bool can_borrow(BlockHash hash) const { return !owners_of(hash).empty(); }
  void tell_all(const Peer& peer);

  void borrow(std::span<const BlockHash> hashes);
  Staged stage(const std::string& name, Peer& peer, std::span<const BlockHash> hashes);
  Result<std::vector<LentBlock>> ask(const std::string& name, std::span<const BlockHash> hashes);
  Result<Staged> fetch(Peer& peer, const std::vector<LentBlock>& lent);
  Status take_over(BlockHash hash, const std::vector<std::string>& owners,
                   const std::map<std::string, Staged>& parts);
  Status copy(const CopyRequest& request);
  Status make_staging(Peer& peer);
  bool wait_until(const std::function<bool()>& done);
  void serve();

  const PeerKeeperOptions options_;
  std::unique_ptr<BlockKeeper> own_;
  BlockLender lender_;
  LayoutHandle lent_from_;
  std::uint64_t edition_ = 0;
  std::map<std::string, Peer> peers_;
  std::set<BlockHash> held_;        // by the keeper under this one, as far as it has told
  std::vector<BlockHash> changed_;  // what peers have come to hold, or to lose
  std::uint64_t next_session_ = 1;
  std::map<std::uint64_t, std::optional<std::vector<LentBlock>>> asked_;  // answers, as they come
  Figures figures_;
  std::unique_ptr<CatalogueExchange> exchange_;
};

}  // namespace towpath::kv
