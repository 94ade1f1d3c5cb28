// The bytes that a measurement moves: each eight of them unique in seed and offset, so that a block
// in the wrong place, an old one and a missing one are all seen. Thread: any.
#pragma once

#include <cstdint>
#include <optional>

#include <towpath/core/bytes.h>

namespace towpath::tools::bench {

/// Which bytes of an area are blocks; between them are gaps, which nobody may write.
struct Blocks {
  std::uint64_t seed = 0;
  std::uint64_t block_bytes = 0;
  std::uint64_t stride = 0;  ///< at least block_bytes
  std::uint64_t count = 0;

  std::uint64_t area_bytes() const noexcept { return stride * count; }
};

/// All of `area`, gaps included.
void fill(ByteSpan area, std::uint64_t seed);
/// What stands where no byte has arrived yet.
void poison(ByteSpan area);
/// The first byte of `area` that is not what fill() put there (in a block) or poison() (in a gap);
/// its size when the blocks do not fit into it.
std::optional<std::uint64_t> first_wrong(ConstByteSpan area, const Blocks& blocks);

}  // namespace towpath::tools::bench
