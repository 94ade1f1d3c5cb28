// Bytes that know where they belong: unique in (block hash, layer, outer, token, offset), so that
// whatever lands in the wrong place is seen.
//
// The first two bytes of a token's row are linear in token and place, with odd factors that the
// hash chooses. So they differ, by construction and not by chance, between any two of 65,536
// tokens, between any two of 65,536 (layer, outer), and as a whole between any two hashes below
// 2^46: a swap of K and V, of layers, tokens or blocks changes bytes even where a token has only
// two. What follows is mixed from everything.
//
//   row:  | base(hash) + place * odd(hash) + token * odd'(hash), u16 le | mixed words, u64 le ... |
//
// Cost: about the speed of writing, or reading, memory. Thread: immutable.
#pragma once

#include <cstdint>
#include <optional>

#include <towpath/core/bytes.h>

namespace towpath::traces {

/// Tokens of one layer and outer of one block, one after the other.
struct PatternRows {
  std::uint64_t hash = 0;  ///< of the block
  std::uint64_t layer = 0;
  std::uint64_t outer = 0;
  std::uint64_t bytes_per_token = 2;  ///< at least 2, even
};

/// `rows` holds whole tokens, from token 0 on.
void fill(const PatternRows& which, ByteSpan rows);
/// The first byte that is not as fill() writes it.
std::optional<std::uint64_t> first_mismatch(const PatternRows& which, ConstByteSpan rows);

}  // namespace towpath::traces
