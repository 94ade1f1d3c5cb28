// DiskTier: a BlockStore as a tier: its tasks end where they begin. What the store's directory has
// of earlier lives is there from the start. Thread: that of BlockTier.
#pragma once

#include <memory>

#include <towpath/kv/disk/block_store.h>
#include <towpath/kv/tiers/block_tier.h>

namespace towpath::kv {

class DiskTier final : public BlockTier {
 public:
  /// `options` names the BlockDirectory and the tier. Errors: those of BlockStore::open;
  /// invalid_argument (no BlockDirectory, or tier 0).
  static Result<std::unique_ptr<DiskTier>> open(sys::FileSystem& files,
                                                const BlockStoreOptions& options);

  const std::string& name() const noexcept override { return name_; }
  TierIndex index() const noexcept override { return index_; }
  void begin(TierTask& task) override;
  Status acknowledge() override { return store_->sync(); }
  void checkpoint() override { (void)store_->checkpoint(); }
  Status remove(BlockHash hash) override { return store_->remove(hash); }

  BlockStore& store() noexcept { return *store_; }

 private:
  DiskTier(std::unique_ptr<BlockStore> store, TierIndex index)
      : store_(std::move(store)), index_(index) {}

  const std::string name_ = "disk";
  std::unique_ptr<BlockStore> store_;
  TierIndex index_;
};

}  // namespace towpath::kv
