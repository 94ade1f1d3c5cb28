#include <algorithm>

#include <towpath/core/format.h>
#include <towpath/kv/tiers/block_bytes.h>
#include <towpath/kv/tiers/host_tier.h>

namespace towpath::kv {
namespace {

Status no_block(BlockHash hash) { return error(Code::not_found, cat("no block ", hex(hash))); }

}  // namespace

Result<std::unique_ptr<HostTier>> HostTier::make(layout::PhysicalLayout memory,
                                                 const HostTierOptions& options) {
  if (options.block_directory == nullptr || options.tier == 0)
    return error(Code::invalid_argument,
                 cat("a host tier as tier ", options.tier,
                     options.block_directory == nullptr ? " that tells nobody what it has" : ""),
                 "name a BlockDirectory, and a tier of 1 or more: 0 is the pool's");
  if (memory.config().format != layout::BlockFormat::nhd)
    return error(Code::invalid_argument,
                 cat("a host tier in the format ", name_of(memory.config().format)),
                 "keep it in nhd: digests have blocks in that order");
  TOWPATH_TRY(memory.bytes({0, 0, 0}).status());
  const std::uint64_t slots = std::min<std::uint64_t>(memory.config().num_blocks, kNoSlot);
  TOWPATH_TRY(auto pool, BlockPool::make({.slots = static_cast<SlotId>(slots),
                                          .policy = options.policy,
                                          .block_directory = options.block_directory,
                                          .tier = options.tier}));
  return std::unique_ptr<HostTier>(new HostTier(std::move(memory), std::move(pool), options.tier));
}

// Asked for in each round of a cache: no look at every slot.
std::optional<TierCapacity> HostTier::room() const {
  return TierCapacity{.blocks = pool_->registered(),
                      .most_blocks = memory_.config().num_blocks,
                      .evicted = pool_->evictions()};
}

void HostTier::begin(TierTask& task) { task.end(done(task)); }

Status HostTier::done(TierTask& task) {
  if (task.kind != TierTask::Kind::look) {
    TOWPATH_TRY(const std::uint64_t block_bytes, memory_.config().block_bytes());
    if (task.bytes.size() != block_bytes)
      return error(
          Code::invalid_argument,
          cat("a block of ", task.bytes.size(), " bytes; the host tier's have ", block_bytes),
          "give the tier a layout with blocks like the pool's");
  }
  return task.kind == TierTask::Kind::put ? put(task) : get(task);
}

/// What lies in the slot is proven, in the pass that copies it there.
Status HostTier::put(const TierTask& task) {
  TOWPATH_TRY(auto slots, pool_->allocate(1));
  TOWPATH_TRY(const Digest kept,
              scatter_as(task.digest, task.bytes, memory_, slots.front().slot()));
  if (kept != task.digest)
    return error(
        Code::corrupt,
        cat("block ", hex(task.hash), " is ", to_string(kept), ", not ", to_string(task.digest)),
        "make the block anew");
  return pool_
      ->register_block(
          CompleteBlock(std::move(slots.front()), {{task.hash, task.parent}, task.digest}))
      .status();
}

Status HostTier::get(TierTask& task) {
  const BlockRef here = pool_->find(task.hash);
  if (!here) return no_block(task.hash);
  task.digest = here.identity().digest;
  if (!task.parent) task.parent = here.identity().block.parent;
  if (task.kind == TierTask::Kind::look) return {};
  TOWPATH_TRY(const Digest came, gather_as(task.digest, memory_, here.slot(), task.bytes));
  if (came == task.digest) return {};
  (void)pool_->drop(task.hash);
  return error(Code::corrupt, cat("block ", hex(task.hash), " is not what was kept in memory"),
               "make the block anew; test the memory if this comes again");
}

Status HostTier::remove(BlockHash hash) { return pool_->drop(hash) ? Status() : no_block(hash); }

}  // namespace towpath::kv
