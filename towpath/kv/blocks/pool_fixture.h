// Pools with blocks in them, for tests. Thread: one.
#pragma once

#include <memory>
#include <utility>

#include <towpath/kv/blocks/block_pool.h>

namespace towpath::kv::testing {

inline std::unique_ptr<BlockPool> make_pool(SlotId slots, BlockDirectory* block_directory = nullptr,
                                            Duplicates duplicates = Duplicates::refuse) {
  return *BlockPool::make(
      {.slots = slots, .duplicates = duplicates, .block_directory = block_directory});
}

/// On the block whose hash is one less. Empty when no slot is to be had.
inline BlockRef put(BlockPool& pool, BlockHash hash) {
  auto partial = pool.allocate(1);
  if (!partial.ok()) return {};
  return *pool.register_block(
      CompleteBlock(std::move(partial->front()), {{hash, hash - 1}, {.value = hash}}));
}

}  // namespace towpath::kv::testing
