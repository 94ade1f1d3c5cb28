// KnownPeers: what peers have told of themselves, in catalogues, and who of them has a block. It
// tells Presence, as one tier: a block that peers have all of together, of the part that is kept
// here.
//
// A peer that failed has lost its blocks here until it tells another catalogue.
// Thread: loop, that of the manager.
#pragma once

#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include <towpath/kv/blocks/presence.h>
#include <towpath/kv/peers/peer_message.h>
#include <towpath/kv/transfer_manager.h>

namespace towpath::kv {

struct OpenPackage;

/// Which share of which model's cache the blocks here are.
struct CacheShare {
  std::string name_space;  ///< blocks are borrowed only within it
  layout::LayoutConfig config;
  std::uint64_t first_layer = 0;  ///< of the model
  std::uint64_t first_head = 0;

  layout::IndexRange heads() const { return {first_head, config.num_heads.value_or(1)}; }
};

class KnownPeers {
 public:
  struct Peer {
    Digest catalogue;  ///< of the last one
    LayoutHandle layout;
    CacheShare share;
    std::unordered_set<BlockHash> hashes;
  };

  /// Manager and presence outlive it.
  KnownPeers(CacheShare ours, TransferManager& manager, Presence& presence, TierIndex tier)
      : ours_(std::move(ours)), manager_(manager), presence_(presence), tier_(tier) {}
  ~KnownPeers();
  KnownPeers(const KnownPeers&) = delete;
  KnownPeers& operator=(const KnownPeers&) = delete;

  /// A peer's catalogue, for the first time or again; a refused one, and the last one again, change
  /// nothing. Errors: those of reading it; invalid_argument (another name space, or a cache that
  /// has nothing of this one's); already_exists (another agent of this name).
  Status learn(ConstByteSpan catalogue);
  void forget(const std::string& name);
  /// It does not have the block; it has none.
  void lose(const std::string& name, BlockHash hash);
  void lose_all(const std::string& name);

  const CacheShare& ours() const { return ours_; }
  /// Null: unknown. Until the next call of another member.
  const Peer* find(const std::string& name) const;
  /// Which peers, by their heads, have all of ours of it together; none: they do not.
  std::vector<std::string> owners_of(BlockHash hash) const;
  std::size_t size() const { return peers_.size(); }
  /// Grows when somebody is met for the first time, or in a new life.
  std::uint64_t met() const { return met_; }

 private:
  Result<Peer> open(const Catalogue& all, const OpenPackage& package) const;
  void tell_changes(const Peer& before, const Peer& now);
  void tell(BlockHash hash);

  const CacheShare ours_;
  TransferManager& manager_;
  Presence& presence_;
  const TierIndex tier_;
  std::map<std::string, Peer> peers_;
  std::uint64_t met_ = 0;
};

}  // namespace towpath::kv
