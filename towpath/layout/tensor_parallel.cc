#include <towpath/core/format.h>
#include <towpath/layout/tensor_parallel.h>

namespace towpath::layout {
namespace {

/// Ranks that hold the same heads.
std::uint64_t replicas(std::uint64_t num_heads, std::uint64_t degree) {
  return degree > num_heads ? degree / num_heads : 1;
}

}  // namespace

Result<IndexRange> heads_of(std::uint64_t num_heads, Shard shard) {
  if (shard.rank >= shard.degree)
    return error(Code::invalid_argument,
                 cat("rank ", shard.rank, " of ", shard.degree, " tensor-parallel ranks"),
                 "ranks count from 0");
  const bool fits =
      num_heads != 0 && (num_heads % shard.degree == 0 || shard.degree % num_heads == 0);
  if (!fits)
    return error(Code::invalid_argument,
                 cat(num_heads, " heads do not spread over ", shard.degree, " ranks"),
                 "one of the two must divide the other");
  if (shard.degree > num_heads)
    return IndexRange{shard.rank / replicas(num_heads, shard.degree), 1};
  const std::uint64_t each = num_heads / shard.degree;
  return IndexRange{shard.rank * each, each};
}

Result<std::vector<ShardPiece>> pieces_of(std::uint64_t num_heads, std::uint64_t source_degree,
                                          Shard target) {
  TOWPATH_TRY(const IndexRange wanted, heads_of(num_heads, target));
  TOWPATH_TRY(const IndexRange held, heads_of(num_heads, {0, source_degree}));
  const std::uint64_t copies = replicas(num_heads, source_degree);
  std::vector<ShardPiece> pieces;
  for (std::uint64_t head = wanted.first; head < wanted.first + wanted.count;) {
    const std::uint64_t group = head / held.count;  // of ranks that hold the same
    const IndexRange here = common(wanted, {group * held.count, held.count});
    pieces.push_back({group * copies + target.rank % copies, here});
    head = here.first + here.count;
  }
  return pieces;
}

}  // namespace towpath::layout
