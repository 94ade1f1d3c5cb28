// BlockLessor: the owner's side of leases. It holds what is asked for, promoted from lower tiers
// where need be, until the lessee lets go or the lease is over.
//
//   ask() -> [ promoted, as the cache makes progress ] -> take_answers() -> [ held ] -> release()
//
// What was granted to a lessee that is gone is let go at once.
// It proves nothing: the lessee does, by the digest that it got. A lease that ends under a
// lessee's hands costs it a block that does not prove; nothing else.
// Thread: loop, the cache's.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <towpath/core/identity.h>
#include <towpath/kv/peers/peer_message.h>
#include <towpath/kv/tiers/tiered_cache.h>

namespace towpath::kv {

struct LessorOptions {
  const Clock* clock = nullptr;
  const BlockDirectory* block_directory = nullptr;  ///< the cache's
  TierIndex not_from = 0;  ///< the tier of what is leased itself; 0: there is none
  Duration lease = std::chrono::seconds(10);
  std::size_t most_blocks = 1024;  ///< granted at once, of all sessions
  /// Of these, to one lessee: one that is stopped, or asks for all, leaves room for others.
  std::size_t most_of_a_lessee = kMaxBlocksAsked;
  /// A lessee that has died, or is known no more; empty: each lives.
  std::function<bool(const AgentIdentity&)> is_gone{};
};

class BlockLessor {
 public:
  /// All outlive it.
  BlockLessor(const LessorOptions& options, TieredCache& cache)
      : options_(options), cache_(cache) {}

  void ask(const AgentIdentity& lessee, const PeerMessage& ask);
  struct Answer {
    AgentIdentity to;
    PeerMessage message;
  };
  /// Of those whose blocks have all been promoted, or not.
  std::vector<Answer> take_answers();
  void release(const AgentIdentity& lessee, std::uint64_t session);
  /// Lets go of what is over.
  void end_leases();

  /// Whether the block is here to be granted.
  bool has(BlockHash hash) const;
  std::size_t sessions() const { return sessions_.size(); }
  std::uint64_t granted_blocks() const { return granted_blocks_; }
  std::uint64_t ended_leases() const { return ended_leases_; }

 private:
  std::size_t room_for(const AgentIdentity& lessee) const;

  struct Session {
    AgentIdentity lessee;
    std::vector<BlockHash> wanted;
    std::vector<BlockHash> not_now;   // beyond room_for()
    std::optional<Promotion> coming;  // nothing: answered
    std::vector<BlockRef> held{};
    Instant end{0};
  };
  using Key = std::pair<std::uint64_t, std::uint64_t>;  // lessee's incarnation, its number

  const LessorOptions options_;
  TieredCache& cache_;
  std::map<Key, Session> sessions_;
  std::size_t wanted_ = 0;  // of all sessions
  std::uint64_t granted_blocks_ = 0;
  std::uint64_t ended_leases_ = 0;
};

}  // namespace towpath::kv
