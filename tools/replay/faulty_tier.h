// FaultyTier: a tier with random faults: a task fails, or a block that it keeps is torn.
// Who asks such a tier gets a miss, with the reason; what a mistake costs is that the block is made
// anew.
// Thread: that of BlockTier.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <towpath/kv/tiers/block_tier.h>

#include "tools/replay/chance.h"
#include "tools/replay/torn_device.h"

namespace towpath::tools::replay {

class FaultyTier final : public kv::BlockTier {
 public:
  /// `device`: that of a tier whose writes can be torn, and the tier's; null: they cannot. `chance`
  /// outlives it. `tear_every`: of so many blocks one is torn, also without chance; 0: none.
  FaultyTier(std::unique_ptr<kv::BlockTier> tier, Chance& chance, TornDevice* device,
             std::uint64_t tear_every = 0)
      : tier_(std::move(tier)), chance_(chance), device_(device), tear_every_(tear_every) {}

  const std::string& name() const noexcept override { return tier_->name(); }
  kv::TierIndex index() const noexcept override { return tier_->index(); }
  std::size_t depth() const noexcept override { return tier_->depth(); }
  std::size_t put_depth() const noexcept override { return tier_->put_depth(); }
  int wait_fd() const override { return tier_->wait_fd(); }
  bool must_be_asked() const noexcept override { return tier_->must_be_asked(); }
  bool takes_blocks() const noexcept override { return tier_->takes_blocks(); }
  bool is_leaving(kv::BlockHash hash) const override { return tier_->is_leaving(hash); }
  std::optional<kv::TierCapacity> room() const override { return tier_->room(); }
  void begin(kv::TierTask& task) override;
  void cancel(kv::TierTask& task) override;
  bool progress() override;
  void wait_for_work(Duration most) override { tier_->wait_for_work(most); }
  void checkpoint() override;
  Status remove(kv::BlockHash hash) override;

  /// Blocks that somebody asked for and that are under way.
  bool has_gets() const;
  /// Blocks that are torn, and that nobody has asked for, are read back: what is wrong, of each.
  std::vector<Status> meet_the_torn(std::uint64_t block_bytes);

 private:
  struct UnderWay {
    const kv::TierTask* task;
    bool tears;
  };
  bool tears_next();
  void look_at_ends();

  const std::unique_ptr<kv::BlockTier> tier_;
  Chance& chance_;
  TornDevice* const device_;
  const std::uint64_t tear_every_;
  std::uint64_t puts_ = 0;
  std::vector<UnderWay> under_way_;
  std::unordered_set<kv::BlockHash> torn_;  // and nobody has met them
};

}  // namespace towpath::tools::replay
