// BlockDirectory: which tiers hold which block, and the news of it, in batches, for those who route
// requests to where their blocks are.
//
// Sharded by hash. News of one block come in the order they happened. News that nobody takes are
// dropped from a bound on, and the next batch says so: whoever hears that asks for everything anew.
// Thread: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/kv/block_id.h>
#include <towpath/run/mutex.h>

namespace towpath::kv {

using TierIndex = std::uint8_t;  ///< the fastest is 0
inline constexpr TierIndex kMaxTiers = 16;

/// What it takes to bring a block from there to the pool, as measured; from the pool, to the
/// engine.
struct TierCost {
  TierIndex tier = 0;
  Duration per_block{0};

  friend bool operator==(const TierCost&, const TierCost&) = default;
};

struct BlockEvent {
  enum class Kind : std::uint8_t { stored, removed };
  Kind kind = Kind::stored;
  TierIndex tier = 0;
  BlockHash hash = 0;
  std::optional<BlockHash> parent;  ///< of a stored block, where known
  TenantId tenant = 0;              ///< the same

  friend bool operator==(const BlockEvent&, const BlockEvent&) = default;
};

class BlockDirectory {
 public:
  /// What is lost costs a reading of all that is there: that is to be rare.
  static constexpr std::size_t kBlocksPerEvent = 8;
  /// Keeps at most about `kept_events` that were not taken, or one for so many blocks.
  explicit BlockDirectory(std::size_t kept_events = std::size_t{1} << 16U);
  ~BlockDirectory();

  /// Says whether that was news. A block has the first tenant that is not 0, while a tier has it.
  bool add(BlockHash hash, TierIndex tier, std::optional<BlockHash> parent = {},
           TenantId tenant = 0);
  bool remove(BlockHash hash, TierIndex tier);
  /// Bit i: tier i has it.
  std::uint16_t tiers_of(BlockHash hash) const;
  std::optional<TierIndex> fastest(BlockHash hash) const;
  /// Blocks that some tier has. Cost: as take_events().
  std::size_t size() const;
  /// 0: nobody has said, or no tier has it.
  TenantId tenant_of(BlockHash hash) const;

  struct Events {
    std::vector<BlockEvent> events;
    bool some_were_lost = false;
  };
  /// All that happened since the last call.
  Events take_events();
  /// There are some. Cost: one load.
  bool has_events() const noexcept { return has_events_.load(std::memory_order_relaxed); }
  /// All that is there, as if it had just been stored; without parents.
  std::vector<BlockEvent> snapshot() const;

 private:
  struct Shard;
  class Tenants;
  static constexpr std::size_t kShards = 64;
  Shard& shard_of(BlockHash hash) const;

  const std::size_t kept_per_shard_;
  const std::unique_ptr<Tenants> tenants_;
  std::unique_ptr<Shard[]> shards_;
  std::atomic<bool> has_events_{false};  // set while the event's shard is held
};

}  // namespace towpath::kv
