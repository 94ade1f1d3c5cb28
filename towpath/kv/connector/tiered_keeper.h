// TieredKeeper: a BlockKeeper over a TieredCache: host memory, and the tiers below it. What is kept
// goes down a little later, and comes back from there when the memory is wanted for others, or
// after a restart.
// Thread: loop.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <towpath/kv/connector/block_keeper.h>
#include <towpath/kv/tiers/tiered_cache.h>

namespace towpath::kv {

struct TieredKeeperParts {
  const Clock* clock = nullptr;  ///< outlives the keeper
  layout::PhysicalLayout memory;
  std::unique_ptr<Presence> presence = std::make_unique<Presence>();
  std::vector<std::unique_ptr<BlockTier>> below{};  ///< that tell this presence; none: memory only
  DigestAlgorithm algorithm = DigestAlgorithm::xxh3_64;
};

class TieredKeeper final : public BlockKeeper {
 public:
  /// Errors: those of TieredCache::make().
  static Result<std::unique_ptr<TieredKeeper>> make(TieredKeeperParts parts);
  /// Writes what is not yet below.
  ~TieredKeeper() override;

  const layout::PhysicalLayout& memory() const override { return cache_->layout(); }
  Result<std::vector<PartialBlock>> room(SlotId count) override;
  Status keep(PartialBlock&& block, BlockHash hash) override;
  bool has(BlockHash hash) const override { return presence_->tiers_of(hash) != 0; }
  Result<BlockRef> hold(BlockHash hash) override;
  bool progress() override { return cache_->progress(); }
  Status sync() override { return cache_->flush(); }
  News take_news() override;

  struct Figures {
    std::uint64_t from_memory = 0;  ///< blocks that hold() gave
    std::uint64_t from_below = 0;
    std::uint64_t written = 0;                         ///< to the tiers below
    std::uint64_t not_written = 0;                     ///< times that one of them did not take it
    std::map<std::string, std::uint64_t> quarantined;  ///< by reason
    Status last_failure;                               ///< of a tier below
  };
  Figures figures() const;

 private:
  TieredKeeper(std::unique_ptr<Presence> presence, DigestAlgorithm algorithm)
      : algorithm_(algorithm), presence_(std::move(presence)) {}

  Result<Digest> digest_of_slot(SlotId slot, const Digest& like) const;
  Result<BlockRef> fetch(BlockHash hash);

  const DigestAlgorithm algorithm_;
  std::unique_ptr<Presence> presence_;
  std::unique_ptr<TieredCache> cache_;  // tells presence_
  bool is_told_ = false;
  std::uint64_t from_memory_ = 0;
  std::uint64_t damaged_in_memory_ = 0;
};

}  // namespace towpath::kv
