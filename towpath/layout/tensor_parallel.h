// Which rank holds which heads, and from which ranks another degree of parallelism takes them.
//
//   8 heads   TP 2: | 0 1 2 3 | 4 5 6 7 |      TP 4, rank 1 of TP 2: pieces {rank 2: 4 5}
//             TP 4: | 0 1 | 2 3 | 4 5 | 6 7 |                                {rank 3: 6 7}
//
// With more ranks than heads, neighbouring ranks hold the same heads (Qwen3-235B has 4 heads for 8
// ranks); MLA has one latent head that every rank holds. A piece names one of those that have it,
// and spreads readers over them. Thread: immutable.
#pragma once

#include <cstdint>
#include <vector>

#include <towpath/core/result.h>
#include <towpath/layout/tensor_view.h>

namespace towpath::layout {

struct Shard {
  std::uint64_t rank = 0;
  std::uint64_t degree = 1;
};

/// Errors: invalid_argument (neither of heads and degree divides the other; rank not below degree).
Result<IndexRange> heads_of(std::uint64_t num_heads, Shard shard);

struct ShardPiece {
  std::uint64_t source_rank = 0;
  IndexRange heads;  ///< of the whole model

  friend bool operator==(const ShardPiece&, const ShardPiece&) = default;
};

/// What rank `target.rank` of `target.degree` takes from `source_degree` ranks: each of its heads
/// once. Errors: as above.
Result<std::vector<ShardPiece>> pieces_of(std::uint64_t num_heads, std::uint64_t source_degree,
                                          Shard target);

}  // namespace towpath::layout
