// Flight: a piece on its way, and the blocks and the window that it needs for that. One that is to
// be changed goes to the drive twice: it is read, then written back.
// Thread: loop.
#pragma once

#include <cstdint>

#include <towpath/backend/piece_operation.h>
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

struct Flight : backend::PieceFlight {
  Piece piece;
  Blocks blocks;  ///< that the whole piece touches
  Step step = Step::move;
  ByteSpan window;  ///< its own memory for detours, as long as the longest window

  void carry(const Piece& its_piece) noexcept {
    piece = its_piece;
    start = piece.start;
    length = piece.length;
    copies = piece.path != Path::direct;  // over the window
    step = piece.path == Path::modify ? Step::fetch : Step::move;
  }
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
