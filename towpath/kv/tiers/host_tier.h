// HostTier: host memory as a tier, below a pool in a device's: a pool of its own, whose policy says
// who goes when it is full. Its tasks end where they begin, and it forgets with its process.
// Thread: that of BlockTier.
#pragma once

#include <memory>

#include <towpath/kv/blocks/block_pool.h>
#include <towpath/kv/tiers/block_tier.h>
#include <towpath/layout/physical_layout.h>

namespace towpath::kv {

struct HostTierOptions {
  PolicyKind policy = PolicyKind::lru;
  BlockDirectory* block_directory = nullptr;  ///< outlives the tier
  TierIndex tier = 1;
};

class HostTier final : public BlockTier {
 public:
  /// As many blocks as `memory` has. Errors: invalid_argument (no BlockDirectory, tier 0, a format
  /// other than nhd), unsupported (memory that this process cannot reach), and those of
  /// BlockPool::make.
  static Result<std::unique_ptr<HostTier>> make(layout::PhysicalLayout memory,
                                                const HostTierOptions& options);

  const std::string& name() const noexcept override { return name_; }
  TierIndex index() const noexcept override { return index_; }
  std::optional<TierCapacity> room() const override;
  void begin(TierTask& task) override;
  Status remove(BlockHash hash) override;

 private:
  HostTier(layout::PhysicalLayout memory, std::unique_ptr<BlockPool> pool, TierIndex index)
      : memory_(std::move(memory)), pool_(std::move(pool)), index_(index) {}

  Status done(TierTask& task);
  Status put(const TierTask& task);
  Status get(TierTask& task);

  const std::string name_ = "host";
  const layout::PhysicalLayout memory_;
  const std::unique_ptr<BlockPool> pool_;
  const TierIndex index_;
};

}  // namespace towpath::kv
