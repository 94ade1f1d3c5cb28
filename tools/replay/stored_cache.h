// StoredCache: prefill's blocks in a TieredCache: a host pool, and below it what the next replay
// finds again (a BlockStore on disk, objects in a store), what other prefills have, or all of them.
// Thread: none of its own.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/kv/tiers/disk_tier.h>
#include <towpath/kv/tiers/tiered_cache.h>
#include <towpath/sys/clock.h>

#include "tools/replay/block_source.h"
#include "tools/replay/chance.h"
#include "tools/replay/faulty_tier.h"
#include "tools/replay/hop.h"
#include "tools/replay/neighbours.h"
#include "tools/replay/options.h"

namespace towpath::tools::replay {

class StoredCache final : public BlockSource {
 public:
  static Result<std::unique_ptr<StoredCache>> open(const Options& options, agent::Agent& agent);
  ~StoredCache() override;

  const layout::PhysicalLayout& layout() const override { return cache_->layout(); }
  Result<std::vector<kv::BlockRef>> gather(const std::vector<std::uint64_t>& blocks,
                                           const Meanwhile& meanwhile) override;
  void hear(const agent::Notification& note) override { neighbours_->hear(note); }
  bool serve() override;
  Status settle() override;
  Account mistakes() const override;
  bool is_granting() const override { return neighbours_ && neighbours_->is_granting(); }
  TierCounts counts() const override;
  Faults& faults() override { return faults_; }
  void report(Message& summary) override;

 private:
  /// A tier below the host's, and what went to and from it.
  struct LowerTiers {
    Place place;
    const char* down;  ///< of its hops; null: it takes no blocks
    const char* up;
    std::string where;
    std::uint64_t put_bytes = 0;  // that down_hop has
    Hop down_hop{}, up_hop{};
  };
  explicit StoredCache(const Options& options)
      : options_(options), chance_(options.faults, options.generator.seed + options.worker) {}
  using Tiers = std::vector<std::unique_ptr<kv::BlockTier>>;
  Status open_disk(Tiers& tiers);
  Status open_objects(agent::Agent& agent, Tiers& tiers);
  Status open_peers(agent::Agent& agent, const layout::LayoutConfig& config, Tiers& tiers);

  void take_a_turn(const Meanwhile& meanwhile);
  void look(const std::vector<std::uint64_t>& blocks, const Meanwhile& meanwhile);
  void demote(bool all);
  /// What was promoted, by its name.
  using Promoted = std::unordered_map<kv::BlockHash, kv::BlockRef>;
  Promoted promote(const std::vector<std::uint64_t>& blocks, std::size_t from,
                   const Meanwhile& meanwhile);
  std::vector<kv::Promoted> promote(const std::vector<kv::CachedBlock>& blocks, LowerTiers& from,
                                    const Meanwhile& meanwhile);
  Result<kv::BlockRef> promote(const kv::CachedBlock& block, const Meanwhile& meanwhile);
  void check_name(kv::Promoted& one);
  Result<kv::BlockRef> produce(const kv::CachedBlock& block, const Meanwhile& meanwhile);
  Status spoil_by_chance(const kv::BlockRef& block);
  std::unique_ptr<kv::BlockTier> by_chance(std::unique_ptr<kv::BlockTier> tier, TornDevice* device);
  void report_failures(LowerTiers& below, const kv::TierFigures& figures);

  const Options options_;
  Chance chance_;
  sys::SystemClock clock_;
  kv::BlockDirectory block_directory_;
  std::vector<LowerTiers> below_;           // tier i is below_[i - 1]
  std::unique_ptr<Neighbours> neighbours_;  // null: there are none
  std::unique_ptr<kv::TieredCache> cache_;
  kv::DiskTier* disk_ = nullptr;       // the cache's; null: none
  FaultyTier* faulty_disk_ = nullptr;  // around it; null: no mistakes are made
  std::uint64_t block_bytes_ = 0;
  Faults faults_;
  Hop produced_;
  ByPlace<std::uint64_t> found_;
  std::uint64_t bad_loads_ = 0;
};

}  // namespace towpath::tools::replay
