// BlockLender: the owner's side of a loan. It holds what is asked for, staged from lower tiers into
// memory where need be, until the borrower lets go or the lease is over.
//
// A lease that ends under a borrower's hands costs it a block that does not prove; nothing else.
// Thread: loop, the keeper's.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <towpath/core/identity.h>
#include <towpath/kv/connector/block_keeper.h>
#include <towpath/kv/peers/peer_message.h>

namespace towpath::kv {

struct LenderOptions {
  const Clock* clock = nullptr;
  Duration lease = std::chrono::seconds(10);
  std::size_t most_blocks = 1024;  ///< lent at once, of all sessions
};

class BlockLender {
 public:
  /// Both outlive it.
  BlockLender(const LenderOptions& options, BlockKeeper& keeper)
      : options_(options), keeper_(keeper) {}

  /// The answer to an ask: those of the hashes that can be had now.
  PeerMessage lend(const AgentIdentity& borrower, const PeerMessage& ask);
  void release(const AgentIdentity& borrower, std::uint64_t session);
  /// Lets go of what is over.
  void end_leases();

  std::size_t sessions() const { return sessions_.size(); }
  std::uint64_t lent_blocks() const { return lent_blocks_; }
  std::uint64_t ended_leases() const { return ended_leases_; }

 private:
  struct Session {
    std::vector<BlockRef> held;
    Instant end;
  };
  using Key = std::pair<std::uint64_t, std::uint64_t>;  // borrower's incarnation, its number

  const LenderOptions options_;
  BlockKeeper& keeper_;
  std::map<Key, Session> sessions_;
  std::size_t held_ = 0;
  std::uint64_t lent_blocks_ = 0;
  std::uint64_t ended_leases_ = 0;
};

}  // namespace towpath::kv
