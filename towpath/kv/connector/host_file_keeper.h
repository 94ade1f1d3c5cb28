// HostFileKeeper: a BlockKeeper of host memory over a BlockStore. What is kept is written to the
// store a little later, and comes back from there when the memory is wanted for others, or after a
// restart.
// Thread: loop.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>

#include <towpath/kv/blocks/block_pool.h>
#include <towpath/kv/connector/block_keeper.h>
#include <towpath/kv/disk/block_store.h>

namespace towpath::kv {

struct HostFileKeeperParts {
  /// A region of blocks in canonical order: fully contiguous, nhd, without padding.
  layout::PhysicalLayout memory;
  std::unique_ptr<BlockStore> store;  ///< null: memory only
  DigestAlgorithm algorithm = DigestAlgorithm::xxh3_64;
};

class HostFileKeeper final : public BlockKeeper {
 public:
  /// Errors: invalid_argument (another arrangement), those of BlockPool::make().
  static Result<std::unique_ptr<HostFileKeeper>> make(HostFileKeeperParts parts);
  /// Writes what is not yet in the store.
  ~HostFileKeeper() override;

  const layout::PhysicalLayout& memory() const override { return parts_.memory; }
  Result<std::vector<PartialBlock>> room(SlotId count) override;
  Status keep(PartialBlock&& block, BlockHash hash) override;
  bool has(BlockHash hash) const override { return presence_.tiers_of(hash) != 0; }
  Result<BlockRef> hold(BlockHash hash) override;
  bool progress() override;
  Status sync() override;
  News take_news() override;

  struct Figures {
    std::uint64_t from_memory = 0;  ///< blocks that hold() gave
    std::uint64_t from_store = 0;
    std::uint64_t written = 0;                         ///< to the store
    std::uint64_t not_written = 0;                     ///< that the store did not take
    std::map<std::string, std::uint64_t> quarantined;  ///< by reason, the store's too
    Status last_failure;                               ///< of writing
  };
  Figures figures() const;

 private:
  explicit HostFileKeeper(HostFileKeeperParts parts) : parts_(std::move(parts)) {}

  ByteSpan bytes_of(SlotId slot) const;
  Result<BlockRef> fetch(BlockHash hash);
  void write_one();
  /// What the store dropped to make room is not there any more.
  void look_after_store();

  HostFileKeeperParts parts_;
  std::uint64_t block_bytes_ = 0;
  Presence presence_;
  std::unique_ptr<BlockPool> pool_;
  std::deque<BlockRef> to_write_;  // dies before the pool
  bool is_told_ = false;
  std::uint64_t reclaimed_ = 0;
  bool is_synced_ = true;
  Figures figures_;
};

}  // namespace towpath::kv
