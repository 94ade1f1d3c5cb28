// StoredCache: prefill's blocks in a TieredCache: a host pool, and below it what the next replay
// finds again: a BlockStore on disk, objects in a store, or both. Thread: none of its own.
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
#include "tools/replay/hop.h"
#include "tools/replay/options.h"

namespace towpath::tools::replay {

class StoredCache final : public BlockSource {
 public:
  static Result<std::unique_ptr<StoredCache>> open(const Options& options, agent::Agent& agent);

  const layout::PhysicalLayout& layout() const override { return cache_->layout(); }
  Result<std::vector<kv::BlockRef>> gather(const std::vector<std::uint64_t>& blocks,
                                           const std::function<Status()>& make_room) override;
  TierCounts counts() const override;
  Faults& faults() override { return faults_; }
  void report(Message& summary) override;

 private:
  /// A tier below the host's, and what went to and from it.
  struct Below {
    Place place;
    const char* down;  ///< of its hops
    const char* up;
    std::string where;
    std::uint64_t put_bytes = 0;  // that down_hop has
    std::uint64_t put_ns = 0;
    Hop down_hop{}, up_hop{};
  };
  using MakeRoom = std::function<Status()>;

  explicit StoredCache(const Options& options) : options_(options) {}
  using Tiers = std::vector<std::unique_ptr<kv::BlockTier>>;
  Status open_disk(Tiers& tiers);
  Status open_objects(agent::Agent& agent, Tiers& tiers);

  void look(const std::vector<std::uint64_t>& blocks);
  void demote(bool all);
  /// What was brought up, by its name.
  using Risen = std::unordered_map<kv::BlockHash, kv::BlockRef>;
  Risen promote(const std::vector<std::uint64_t>& blocks, std::size_t from);
  std::vector<kv::Promoted> promote(const std::vector<kv::CachedBlock>& blocks, Below& from);
  Result<kv::BlockRef> promote(const kv::CachedBlock& block, const MakeRoom& make_room);
  void check_name(kv::Promoted& one);
  Result<kv::BlockRef> produce(const kv::CachedBlock& block, const MakeRoom& make_room);

  const Options options_;
  sys::SystemClock clock_;
  kv::Presence presence_;
  std::vector<Below> below_;  // tier i is below_[i - 1]
  std::unique_ptr<kv::TieredCache> cache_;
  kv::DiskTier* disk_ = nullptr;  // the cache's; null: none
  std::uint64_t block_bytes_ = 0;
  Faults faults_;
  Hop produced_;
  ByPlace<std::uint64_t> found_;
  std::uint64_t bad_loads_ = 0;
};

}  // namespace towpath::tools::replay
