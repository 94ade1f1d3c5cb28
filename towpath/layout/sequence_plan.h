// Plans for tokens of a sequence, whatever sizes the blocks on both sides have.
//
// A block table says which blocks hold a sequence: with blocks of 16 tokens, token 40 is the 8th of
// block blocks[2]. A copy of tokens between tables of 16 and of 64 tokens per block is cut where
// either side's block ends; what comes of it is grouped by where in their blocks the cuts lie, of
// which there are few, so that plans stay small:
//
//   source, 16 a block   | 7 | 3 | 9 | 1 | 4 | ...       4 groups: tokens [0, 16) to [0, 16),
//   target, 64 a block   |       5       | ...           to [16, 32), to [32, 48), to [48, 64)
//
// Thread: immutable.
#pragma once

#include <cstdint>
#include <span>

#include <towpath/core/result.h>
#include <towpath/layout/box_plan.h>
#include <towpath/layout/tensor_view.h>

namespace towpath::layout {

/// Tokens [first, first + count) of the sequence; each table begins with the sequence's token 0, or
/// wherever its side says.
struct TokenCopy {
  std::span<const std::uint64_t> source_blocks;
  std::span<const std::uint64_t> target_blocks;
  std::uint64_t source_first = 0;  ///< position in the source's table, in tokens
  std::uint64_t target_first = 0;
  std::uint64_t count = 0;  ///< tokens
};

/// The views must have all tokens of their blocks, and the same indices on the axes beside blocks
/// and tokens (intersect() must be given one block size: cut heads and layers with slice()).
/// Errors: out_of_range (tokens beyond a table, blocks beyond a view), invalid_argument (a target
/// block twice in its table), and those of plan_boxes().
Result<BoxPlan> plan_tokens(const TensorView& source, const TensorView& target,
                            const TokenCopy& copy);

}  // namespace towpath::layout
