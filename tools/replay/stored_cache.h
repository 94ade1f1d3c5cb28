// StoredCache: prefill's blocks in a TieredCache: a host pool, and a BlockStore on disk below it
// that the next replay finds again. Thread: none of its own.
#pragma once

#include <memory>
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
  explicit StoredCache(const Options& options) : options_(options), digester_(options.salt) {}

  void demote(bool all);

  using MakeRoom = std::function<Status()>;
  Result<kv::BlockRef> promote(const kv::CachedBlock& block, const MakeRoom& make_room);
  Result<kv::BlockRef> produce(const kv::CachedBlock& block, const MakeRoom& make_room);

  const Options options_;
  sys::SystemClock clock_;
  kv::Presence presence_;
  std::unique_ptr<kv::TieredCache> cache_;
  kv::DiskTier* disk_ = nullptr;  // the cache's
  std::uint64_t block_bytes_ = 0;
  kv::Digester digester_;
  Faults faults_;
  Hop produced_, spilled_, loaded_;
  std::uint64_t host_hits_ = 0, disk_hits_ = 0, misses_ = 0, bad_loads_ = 0;
};

}  // namespace towpath::tools::replay
