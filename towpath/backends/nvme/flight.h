// Flight: one piece on its way, from the first command until its last byte is settled (in place,
// failed, or not tried because of a cancel). It may go to the drive several times: to be read
// before it is changed, to try again, and stretch by stretch to find the one that fails.
//
//   piece    |-----------------------------------------------|   in bytes of the request
//            0        done                limit              length
//            | settled | in the engine now | later (isolating) |
//
// Thread: loop.
#pragma once

#include <cstdint>

#include <towpath/backends/nvme/operation.h>
#include <towpath/backends/nvme/splitter.h>

namespace towpath::backends::nvme {

/// Blocks of a namespace.
struct Blocks {
  std::uint64_t lba = 0;
  std::uint64_t count = 0;
};

/// What the command in the engine is for.
enum class Step : std::uint8_t {
  move,   ///< the piece itself
  fetch,  ///< the block that a part of is to be changed
};

/// Of an id: the flight's number; above it, how often it was used.
inline constexpr unsigned kIndexBits = 16;

struct Flight {
  NvmeOperation* operation = nullptr;  ///< null: free
  Piece piece;
  Blocks blocks;            ///< that the whole piece touches
  std::uint64_t id = 0;     ///< of the submission in the engine; another one each time
  std::uint64_t done = 0;   ///< bytes settled
  std::uint64_t limit = 0;  ///< end of what is in the engine
  Step step = Step::move;
  bool isolating = false;     ///< one stretch at a time
  std::uint32_t retries = 0;  ///< since bytes last moved
  ByteSpan window;            ///< its own memory for detours, as long as the longest window

  std::uint64_t remaining() const noexcept { return limit - done; }
  const NamespaceInfo& info() const noexcept { return piece.device->info(); }
};

/// Those that `bytes` bytes of the request from `start` on touch, and what lies between them.
Blocks blocks_of(Segments segments, const Position& start, std::uint64_t bytes,
                 std::uint32_t block_bytes) noexcept;

/// Copies between the user's memory and a window whose first byte is byte `begin` of the namespace.
void scatter(Segments segments, const Position& start, std::uint64_t bytes, ConstByteSpan window,
             std::uint64_t begin) noexcept;
void gather(Segments segments, const Position& start, std::uint64_t bytes, ByteSpan window,
            std::uint64_t begin) noexcept;

}  // namespace towpath::backends::nvme
