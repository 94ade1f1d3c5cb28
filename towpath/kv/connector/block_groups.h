// The groups of an engine's layers, as a connector's scheduler knows them. Layers of a kind share
// block tables: a request has one for each group, and its i-th block of any group is for the same
// tokens. Source: vLLM's kv_cache_groups (vllm/v1/kv_cache_interface.py).
//
//   tokens         0 . . 1 . . 2 . . 3 . . 4 . . 5   next
//   whole          [ 17 ][ 18 ][ 19 ][ 20 ][ 21 ]     all of it is needed to go on
//   window of 5    [  - ][  - ][  - ][ 44 ][ 45 ]     the blocks that its last 5 tokens are in
//   state          [  - ][  - ][  - ][  - ][ 61 ]     what is behind the last token
//
// Thread: values; BlockTables borrows what it is made of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace towpath::kv {

struct BlockGroup {
  enum class Kind : std::uint8_t {
    whole,   ///< each token attends to all before it
    window,  ///< to the last `window_tokens` before it
    state,   ///< blocks hold the state behind their last token, which only a step's end makes
  };
  Kind kind = Kind::whole;
  std::uint64_t window_tokens = 0;

  /// Of `blocks` blocks of a request, the first that is needed to go on behind them.
  std::uint64_t first_needed(std::uint64_t blocks, std::uint64_t tokens_per_block) const noexcept {
    if (kind == Kind::whole || blocks == 0) return 0;
    const std::uint64_t tokens = kind == Kind::state ? 1 : window_tokens;
    const std::uint64_t needed =
        tokens / tokens_per_block + (tokens % tokens_per_block != 0 ? 1 : 0);
    return blocks - std::min(blocks, needed);
  }
};

/// What a step of the engine computes for a request: it has `before` tokens when the step begins,
/// and `after` when it ends.
struct StepOfRequest {
  std::uint64_t before = 0, after = 0;
};

/// The engine's blocks of a request: a table for each group, or the only one.
class BlockTables {
 public:
  BlockTables() = default;
  BlockTables(std::span<const std::uint64_t> only) : only_(only) {}     // NOLINT: as its table
  BlockTables(const std::vector<std::uint64_t>& only) : only_(only) {}  // NOLINT: the same
  BlockTables(std::span<const std::vector<std::uint64_t>> all) : all_(all) {}  // NOLINT: the same

  std::size_t size() const noexcept { return all_.empty() ? 1 : all_.size(); }
  std::span<const std::uint64_t> operator[](std::size_t group) const noexcept {
    return all_.empty() ? only_ : std::span(all_[group]);
  }

 private:
  std::span<const std::uint64_t> only_;
  std::span<const std::vector<std::uint64_t>> all_;
};

}  // namespace towpath::kv
