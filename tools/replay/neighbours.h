// Neighbours: the other prefills, of whom blocks are leased, and to whom they are granted.
//
//   open() -> take_tier(), for a TieredCache -> join(cache) -> hear(), serve() ... -> leave()
//
// Thread: none of its own.
#pragma once

#include <memory>
#include <string>

#include <towpath/agent/agent.h>
#include <towpath/blockcopy/transfer_manager.h>
#include <towpath/kv/peers/peer_leases.h>

#include "tools/replay/options.h"

namespace towpath::tools::replay {

class Neighbours {
 public:
  /// All outlive it; the tier is the lowest of the cache's.
  struct Parts {
    agent::Agent& agent;
    const Clock& clock;
    kv::BlockDirectory& block_directory;
    kv::TierIndex tier;
  };
  static Result<std::unique_ptr<Neighbours>> open(const Options& options, const Parts& parts,
                                                  const layout::LayoutConfig& config);
  std::unique_ptr<kv::BlockTier> take_tier() { return std::move(untaken_); }
  /// Meets them at the rendezvous, from now on. The cache has the tier.
  Status join(kv::TieredCache& cache);
  /// Before the cache goes.
  void leave() { leases_.reset(); }

  /// What one of them says.
  void hear(const agent::Notification& note);
  /// Notifies them what is here, and answers.
  void serve();
  bool is_granting() const { return leases_->is_granting(); }

  std::uint64_t failed_leases() const { return tier_->figures().failed_sessions; }
  std::string where() const;  ///< the blocks are, for a report

 private:
  explicit Neighbours(const Options& options) : options_(options) {}

  const Options& options_;
  std::unique_ptr<blockcopy::TransferManager> manager_;
  kv::PeerTierOptions reported_;
  std::unique_ptr<kv::PeerTier> untaken_;
  kv::PeerTier* tier_ = nullptr;
  std::unique_ptr<kv::PeerLeases> leases_;
};

}  // namespace towpath::tools::replay
