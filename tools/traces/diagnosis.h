// diagnose(): what a wrong block looks like, in words. A mismatch says that bytes are wrong; this
// says which mistake makes such bytes. Thread: any.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include <towpath/core/bytes.h>
#include <towpath/kv/block_id.h>

namespace towpath::traces {

struct BlockShape {
  std::uint64_t num_layers = 1;
  std::uint64_t outer_dim = 2;
  std::uint64_t tokens = 1;
  std::uint64_t bytes_per_token = 2;
};

/// The rows of one (layer, outer) of the block, as found: shape.tokens * shape.bytes_per_token
/// bytes.
using RowsFound = std::function<ConstByteSpan(std::uint64_t layer, std::uint64_t outer)>;

/// Begins with the mistake's name: "swap-kv", "swap-layer", "swap-block", "swap-token", "flip-bit",
/// "torn", or "unknown". Empty when nothing is wrong. `others`: blocks that may lie here by
/// mistake.
std::string diagnose(kv::BlockHash hash, const BlockShape& shape, const RowsFound& found,
                     std::span<const kv::BlockHash> others);

}  // namespace towpath::traces
