// KnownPeers: what peers have reported about themselves, in catalogues, and who of them has a
// block. It reports to BlockDirectory, as one tier: a block that peers have all of together, of the
// part that is kept here.
//
// What has changed in a catalogue may come late, twice or not at all: what goes before is missing
// then, and the peer is one that we are behind, until a catalogue or the changes have come.
// A peer that failed has lost its blocks here until it reports another catalogue, or changes.
// Thread: loop, that of the manager.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <towpath/blockcopy/transfer_manager.h>
#include <towpath/kv/blocks/block_directory.h>
#include <towpath/kv/peers/peer_message.h>

namespace towpath::blockcopy {
struct OpenPackage;
}

namespace towpath::kv {

/// Which share of which model's cache the blocks here are.
struct CacheShare {
  std::string name_space;  ///< blocks are leased only within it
  layout::LayoutConfig config;
  std::uint64_t first_layer = 0;  ///< of the model
  std::uint64_t first_head = 0;

  layout::IndexRange heads() const { return {first_head, config.num_heads.value_or(1)}; }
};

/// Of the layout that the catalogue's owner grants from. Errors: invalid_argument (its package has
/// none of that number).
Result<CacheShare> share_of(const Catalogue& catalogue, const blockcopy::OpenPackage& package);

/// A peer reports itself alone: it is forgotten by the name that its catalogue is reported by.
/// Errors: invalid_argument.
Status check_reporter(const blockcopy::OpenPackage& package, std::string_view reporter);

class KnownPeers {
 public:
  using Names = std::set<std::string>;
  struct Peer {
    Digest catalogue;  ///< of the last one
    blockcopy::LayoutHandle layout;
    CacheShare share;
    std::unordered_set<BlockHash> hashes;
    std::optional<std::uint64_t> edition;  ///< of the hashes; nothing: it reports no changes
    std::uint64_t newest = 0;              ///< that was heard of
    std::uint64_t failed_at = 0;           ///< what was known when it failed is no news
    std::optional<Instant> heard_at;  ///< when it reported changes last, or that there are none

    bool is_behind() const { return edition && *edition < newest; }
  };

  /// `manager` and `block_directory` outlive it.
  KnownPeers(CacheShare ours, blockcopy::TransferManager& manager, BlockDirectory& block_directory,
             TierIndex tier)
      : ours_(std::move(ours)), manager_(manager), block_directory_(block_directory), tier_(tier) {}
  ~KnownPeers();
  KnownPeers(const KnownPeers&) = delete;
  KnownPeers& operator=(const KnownPeers&) = delete;

  /// A peer's catalogue, for the first time or again; a refused one, one older than what is known,
  /// and the last one again change nothing. Errors: those of reading it; invalid_argument (another
  /// name space, a cache that has nothing of this one's, or as check_reporter's, where the reporter
  /// is known); already_exists (another agent of this name).
  Status learn(ConstByteSpan catalogue, std::optional<std::string_view> reporter = {});
  /// What one that is known has reported about its catalogue. Nothing, of another life.
  void hear(const AgentIdentity& from, const CatalogueChanges& changes);
  void forget(const std::string& name);
  /// It does not have the block; it has none.
  void lose(const std::string& name, BlockHash hash);
  void lose_all(const std::string& name);

  const CacheShare& ours() const { return ours_; }
  /// Null: unknown. Until the next call of another member.
  const Peer* find(const std::string& name) const;
  /// The fewest peers that, by their heads, have all of ours of it together, and of those that
  /// would do as well the ones with the fewest heads; none: they do not. None of those `without` is
  /// among them.
  std::vector<std::string> owners_of(BlockHash hash, const Names& without = {}) const;
  const std::map<std::string, Peer>& all() const { return peers_; }
  std::size_t size() const { return peers_.size(); }
  /// Grows when somebody is met for the first time, or in a new life.
  std::uint64_t met() const { return met_; }

 private:
  Result<Peer> open(const Catalogue& all, const blockcopy::OpenPackage& package) const;
  void apply(Peer& peer, const CatalogueChanges& changes);
  void report_changes(const Peer& before, const Peer& now, const Catalogue& said);
  void report(BlockHash hash, TenantId tenant = 0);

  const CacheShare ours_;
  blockcopy::TransferManager& manager_;
  BlockDirectory& block_directory_;
  const TierIndex tier_;
  std::map<std::string, Peer> peers_;
  std::uint64_t met_ = 0;
};

}  // namespace towpath::kv
