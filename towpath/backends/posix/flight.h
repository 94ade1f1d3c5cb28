// Flight: one I/O on its way, from the first submission until its last byte is settled (in place,
// failed, or not tried because of a cancel). It may go to the engine several times: to continue
// after a short one, to try again, and stretch by stretch to find the one that fails.
//
//   piece    |-----------------------------------------------|
//            0        done                limit              length
//            | settled | in the engine now | later (isolating) |
//
// Thread: loop.
#pragma once

#include <array>
#include <cstdint>

#include <towpath/backends/posix/bounce_pool.h>
#include <towpath/backends/posix/operation.h>
#include <towpath/backends/posix/splitter.h>

namespace towpath::backends::posix {

/// Of one I/O. 64 pieces of 4 KiB are 256 KiB, where the cost of a call no longer shows.
inline constexpr std::size_t kMaxParts = 64;

struct Flight {
  PosixOperation* operation = nullptr;  ///< null: free
  Piece piece;
  std::uint64_t id = 0;       ///< of the submission in the engine; another one each time
  std::uint64_t done = 0;     ///< bytes settled
  std::uint64_t limit = 0;    ///< end of what is in the engine
  bool isolating = false;     ///< one stretch at a time
  std::uint32_t retries = 0;  ///< since bytes last moved
  BouncePool::Buffer bounce;
  std::array<sys::IoPart, kMaxParts> parts;   ///< of the whole piece
  std::array<sys::IoPart, kMaxParts> active;  ///< of [done, limit)

  std::uint64_t remaining() const noexcept { return limit - done; }
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
