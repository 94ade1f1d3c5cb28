// Flight: an I/O on its way, and the parts of memory that it goes to or comes from.
// Thread: loop.
#pragma once

#include <array>
#include <cstdint>

#include <towpath/backend/piece_operation.h>
#include <towpath/backends/posix/bounce_pool.h>
#include <towpath/backends/posix/splitter.h>

namespace towpath::backends::posix {

/// Of one I/O. 64 pieces of 4 KiB are 256 KiB, where the cost of a call no longer shows.
inline constexpr std::size_t kMaxParts = 64;

struct Flight : backend::PieceFlight {
  Piece piece;
  BouncePool::Buffer bounce;
  std::array<sys::IoPart, kMaxParts> parts;   ///< of the whole piece
  std::array<sys::IoPart, kMaxParts> active;  ///< of [done, limit)

  void carry(const Piece& its_piece) noexcept {
    piece = its_piece;
    start = piece.start;
    length = piece.length;
    // A buffered I/O may copy inside the system call that starts it.
    copies = piece.path == Path::buffered;
  }
  std::uint64_t file_offset() const noexcept { return piece.file_offset + done; }
  OpenFile& file() const noexcept { return piece.disk->file(); }
};

/// The whole blocks of the file around [done, limit), and the buffer that they are read into.
struct BounceWindow {
  std::uint64_t offset = 0;  ///< in the file
  ByteSpan buffer;
  std::uint64_t skip = 0;  ///< bytes in front of what is wanted
};
BounceWindow bounce_window(const Flight& flight) noexcept;

/// The parts of `flight` from `done` to `limit`, in flight.active; says how many.
std::uint32_t select_parts(Flight& flight) noexcept;

/// Copies the first bytes of `from` to the parts that select_parts() would give, as far as both go.
void scatter(const Flight& flight, ConstByteSpan from) noexcept;

}  // namespace towpath::backends::posix
