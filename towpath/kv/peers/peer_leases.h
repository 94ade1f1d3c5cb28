// PeerLeases: what a keeper of blocks has to do with others of its kind: it reports to them what is
// here, grants it, learns what they have, and takes their answers to the tier that leases.
//
//   join(rendezvous), or catalogue() by any way  --->  learn() at the others
//
// Those who lease must have learned of each other: an answer goes to whom the owner knows.
// Whose agent's notifications are all for this calls progress(); who has others among them calls
// serve(), and hands to hear() those of these peers. Thread: loop, that of the manager.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <towpath/kv/figures.h>
#include <towpath/kv/peers/block_lessor.h>
#include <towpath/kv/peers/catalogue_exchange.h>
#include <towpath/kv/peers/catalogue_journal.h>
#include <towpath/kv/peers/peer_tier.h>

namespace towpath::kv {

class PeerLeases {
 public:
  /// `tier` is one of `cache`; what they were made with outlives this, and so do they.
  /// Errors: those of registering the memory that is granted from.
  static Result<std::unique_ptr<PeerLeases>> make(const PeerTierOptions& options, Duration lease,
                                                  PeerTier& tier, TieredCache& cache);
  ~PeerLeases();

  /// Meets others at `place` from now on, as progress() is called.
  void join(std::unique_ptr<rendezvous::Rendezvous> place, CatalogueExchangeOptions options = {});
  /// What others need to lease from here. Errors: those of exporting the layouts.
  Result<Bytes> catalogue();
  /// The layouts in it, as they are now. Errors: the same.
  Result<Bytes> package() const;
  /// Of the tiers that the leases were made with: blocks came or went.
  void note_changes(const BlockDirectory::Events& news);
  const CatalogueJournal& journal() const { return journal_; }
  /// Changes of the journal since then, with what belongs to them: the layout, and tenants.
  std::vector<CatalogueChanges> changes_since(std::uint64_t edition) const;
  /// What is granted, by its number, as peers know it.
  std::uint64_t layout() const { return granted_from_.id; }
  const KnownPeers& known() const { return tier_.known(); }
  const std::string& name() const { return options_.agent->name(); }
  /// As KnownPeers'.
  Status learn(ConstByteSpan catalogue, std::optional<std::string_view> reporter = {}) {
    return tier_.learn(catalogue, reporter);
  }
  void forget(const std::string& peer) { tier_.forget(peer); }
  /// As the agent's.
  Status report(const std::string& peer, const PeerMessage& message);
  bool is_lost(const std::string& peer) const;
  /// Whether one is known that is not lost.
  bool has_peer() const;

  /// Takes all of the agent's notifications, and serves. True: there is more to do at once.
  bool progress();
  /// What a peer says. Errors: those of reading it.
  Status hear(const agent::Notification& note);
  /// Reports what is here, answers what was asked, lets go of what is over.
  void serve();
  /// Whether blocks here are held for others.
  bool is_granting() const { return lessor_.sessions() > 0; }
  PeerFigures figures() const;

 private:
  PeerLeases(const PeerTierOptions& options, Duration lease, PeerTier& tier, TieredCache& cache);
  void settle();
  void name_again(std::span<const BlockHash> kept);
  bool is_here(BlockHash hash) const;
  void answer_all();
  std::vector<TenantId> sort_by_tenant(std::vector<BlockHash>& hashes) const;

  const PeerTierOptions options_;
  PeerTier& tier_;
  BlockLessor lessor_;
  blockcopy::LayoutHandle granted_from_;
  CatalogueJournal journal_;
  Status last_failure_;
  std::unique_ptr<CatalogueExchange> exchange_;  // dies first: it calls back
};

}  // namespace towpath::kv
