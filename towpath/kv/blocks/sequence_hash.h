// Names of blocks: a block's hash says which tokens it holds and all that came before them, whose
// they are and in which room. Equal hashes, equal KV bytes.
//
//   root(salt, name space) --> extend(tokens of block 0) --> extend(tokens of block 1) --> ...
//
// XXH3, 64 bits, each block's hash the seed of the next: fast, and no defence against someone who
// makes tokens that collide. Tenants who do not trust each other get salts of their own, random and
// kept to themselves. At 10^9 blocks two of one name are a matter of 3 in 100; there is no longest
// sequence. Thread: any.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <towpath/core/result.h>
#include <towpath/kv/block_id.h>

namespace towpath::kv {

using TokenId = std::uint32_t;

struct SequenceRoot {
  std::uint64_t salt = 0;
  std::string_view name_space;  ///< model, adapter, tenant: whatever makes equal tokens unequal
};

BlockHash root_of(const SequenceRoot& root);
/// Of what is apart below a root: an adapter, a tenant. `room` may be any bytes, those of tokens,
/// too: it is never the name of a block.
BlockHash root_of_room(BlockHash root, std::string_view room);
/// Of the holder of this salt; 0: there is none. A salt is found from it by guessing alone.
TenantId tenant_of(std::string_view salt);
/// The hash of the block that holds these tokens and stands on `parent` (a root, for the first).
BlockHash extend(BlockHash parent, std::span<const TokenId> tokens);

/// The blocks of a sequence, each with the one it stands on: both hashes together are a name of 128
/// bits, for all but blocks that stand on the same one (BlockPool::match()).
std::vector<CachedBlock> with_parents(std::span<const BlockHash> sequence);

/// Of each whole block; what is left over at the end has no name yet.
/// Errors: invalid_argument (blocks of no tokens).
Result<std::vector<BlockHash>> sequence_hashes(const SequenceRoot& root,
                                               std::span<const TokenId> tokens,
                                               std::uint64_t tokens_per_block);

}  // namespace towpath::kv
