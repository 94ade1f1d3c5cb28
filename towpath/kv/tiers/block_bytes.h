// A block's bytes in one piece, in canonical order, and the same block in a slot of a layout.
// Thread: any; whoever calls holds the block.
#pragma once

#include <optional>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/kv/digest.h>
#include <towpath/layout/physical_layout.h>

namespace towpath::kv {

/// The slot itself, where the layout has a block in one piece; nothing where it has not, or where
/// this process cannot reach it.
std::optional<ByteSpan> in_one_piece(const layout::PhysicalLayout& layout, std::uint64_t slot);

/// Both spans of bytes are as long as a block. Errors: those of PhysicalLayout::bytes.
Status gather(const layout::PhysicalLayout& layout, std::uint64_t slot, ByteSpan into);
Status scatter(ConstByteSpan from, const layout::PhysicalLayout& layout, std::uint64_t slot);

/// The same in one pass with the digest of what was written, by `like`'s algorithm and salt: equal
/// to `like`, if it is that block.
Result<Digest> gather_as(const Digest& like, const layout::PhysicalLayout& layout,
                         std::uint64_t slot, ByteSpan into);
Result<Digest> scatter_as(const Digest& like, ConstByteSpan from,
                          const layout::PhysicalLayout& layout, std::uint64_t slot);

}  // namespace towpath::kv
