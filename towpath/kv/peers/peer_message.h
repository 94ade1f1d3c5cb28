// What holders of KV blocks exchange: a catalogue, where everyone can find it, of what one
// holds and may grant; and, between two of them, what has changed in it, and a session. The
// formats: docs/formats/kv_peers.md.
//
//   lessee                                       owner
//      | ask(session, hashes) ----------------------> | holds them, from below if need be
//      | <----- grant(session, lease, slots, digests) |
//      | reads the slots, and proves what it got      |
//      | release(session) --------------------------> | lets go; or when the lease is over
//      |                                              |
//      | <--------- changes(from, to, stored, lost)   | reports all that it has met
//      | behind(from) ------------------------------> | when some were lost on the way
//
// What comes in is hostile: bounded before anything is allocated. Thread: immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/kv/block_id.h>
#include <towpath/kv/digest.h>

namespace towpath::kv {

inline constexpr std::size_t kMaxBlocksAsked =
    256;  ///< in a session; so that it fits a notification

/// In one message, stored and lost together.
inline constexpr std::size_t kMaxChangesReported = 1024;
inline constexpr std::size_t kMaxHashesListed = std::size_t{1} << 20U;  ///< in a catalogue
/// In a message, how often the tenant changes from one block to the next; from there on, nobody's.
inline constexpr std::size_t kMaxTenantRuns = 1024;

struct GrantedBlock {
  BlockHash hash = 0;
  std::uint64_t slot = 0;             ///< of the owner's layout
  Digest digest;                      ///< of the whole block there
  std::optional<BlockHash> parent{};  ///< that it stands on, where the owner knows it

  friend bool operator==(const GrantedBlock&, const GrantedBlock&) = default;
};

/// Makes edition `to` of a catalogue of edition `from`, and of any between them. Editions count in
/// one life of an agent, and of the layout that is granted from.
struct CatalogueChanges {
  std::uint64_t layout = 0;  ///< the catalogue's
  std::uint64_t from = 0;    ///< behind: what the sender knows
  std::uint64_t to = 0;      ///< at least `from`; as `from`: that is what there is
  std::vector<BlockHash> stored;
  std::vector<BlockHash> lost;
  std::vector<TenantId> tenants{};  ///< of each of `stored`; none: nobody's

  friend bool operator==(const CatalogueChanges&, const CatalogueChanges&) = default;
};

struct PeerMessage {
  enum class Word : std::uint8_t { ask = 1, grant = 2, release = 3, changes = 4, behind = 5 };
  Word word = Word::ask;
  std::uint64_t session = 0;          ///< the lessee's number for it
  std::vector<BlockHash> hashes;      ///< ask: at most kMaxBlocksAsked
  std::vector<GrantedBlock> granted;  ///< grant: those of them that can be had
  Duration lease{0};                  ///< grant: from when it was sent
  CatalogueChanges changes;           ///< changes, behind
  /// grant: those of them that are here, and for which there is no room now; older releases do not
  /// say so, and do not hear it.
  std::vector<BlockHash> not_now{};
  /// ask: the block that each of `hashes` stands on, 0 where the lessee does not know it; none: it
  /// knows none.
  std::vector<BlockHash> parents{};

  friend bool operator==(const PeerMessage&, const PeerMessage&) = default;
};

struct Catalogue {
  std::string name_space;    ///< equal names of equal tokens' blocks only within one
  Bytes package;             ///< TransferManager::export_package() of the owner
  std::uint64_t layout = 0;  ///< the one of the package that blocks are granted from, by its id
  std::vector<BlockHash> hashes;  ///< at most kMaxHashesListed
  /// Nothing: the owner is of an older release, and reports no changes.
  std::optional<std::uint64_t> edition;
  std::vector<TenantId> tenants{};  ///< of each of `hashes`; none: nobody's

  friend bool operator==(const Catalogue&, const Catalogue&) = default;
};

/// Errors: out_of_range (over a limit).
Result<Bytes> encode(const PeerMessage& message);
Result<Bytes> encode(const Catalogue& catalogue);
/// Errors: as wire::open() and the decoder's.
Result<PeerMessage> decode_peer_message(ConstByteSpan bytes);
Result<Catalogue> decode_catalogue(ConstByteSpan bytes);

}  // namespace towpath::kv
