// The pool of prefill, which decode maps, and the bytes of its blocks.
// Thread: any.
#pragma once

#include <cstdint>

#include <towpath/agent/agent.h>
#include <towpath/kv/blocks/block_pool.h>
#include <towpath/kv/digest.h>
#include <towpath/layout/physical_layout.h>

namespace towpath::tools::replay {

Result<layout::PhysicalLayout> open_host_pool(const layout::LayoutConfig& config,
                                              agent::Agent& agent);

/// Makes a block's bytes in its slot: those that its hash says (traces/pattern.h). How many.
Result<std::uint64_t> fill_block(const layout::PhysicalLayout& layout, kv::BlockHash hash,
                                 kv::SlotId slot);
/// Salted with the block's hash: no other block's bytes have it.
Result<kv::Digest> digest_of_slot(const layout::PhysicalLayout& layout, kv::BlockHash hash,
                                  kv::SlotId slot);

}  // namespace towpath::tools::replay
