// The offline optimum (Belady 1966): of all blocks, the one whose next use is farthest goes, and a
// block that is used later than all others is not kept at all. No policy can have more hits, also
// when hits count only up to a prompt's first missing block: a block's next use is never before
// that of the blocks it stands on. It needs to know the future, so it is a bound and not a policy.
// Thread: any.
#pragma once

#include <cstdint>
#include <span>

#include <towpath/kv/block_id.h>

namespace towpath::traces {

/// The most hits that a cache of `slots` can have over these uses. Cost: logarithmic per use.
std::uint64_t optimum_hits(std::span<const kv::BlockHash> uses, kv::SlotId slots);

}  // namespace towpath::traces
