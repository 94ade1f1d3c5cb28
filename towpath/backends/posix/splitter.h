// Splitter: cuts a request into I/Os, one at a time, in its order. Pure: it decides and touches
// nothing; the same request and files give the same I/Os.
//
//   extents  [a][b][c]   [d......................]  [e]
//   file       [a  b  c]   [d......................]  [e]
//   I/Os       [ parts ]   [ chunk ][ chunk ][ rest]  [e]
//
// Neighbours in the file become one I/O: of one part where they are neighbours in memory too, of
// several where the pieces are small (below vector_below). Larger pieces go side by side instead:
// then each can use a registered buffer.
// It allocates nothing and keeps no list: its place in the request is all its state.
// Thread: loop.
#pragma once

#include <cstdint>
#include <span>

#include <towpath/backend/position.h>
#include <towpath/backends/posix/counters.h>
#include <towpath/backends/posix/memories.h>
#include <towpath/sys/io_part.h>

namespace towpath::backends::posix {

using backend::advance;
using backend::Extent;
using backend::extent_at;
using backend::first_byte;
using backend::Position;
using backend::rest_of_extent;
using backend::Segments;

/// One I/O of a request.
struct Piece {
  Position start;
  DiskMemory* disk = nullptr;
  LocalMemory* local = nullptr;  ///< of the first part
  std::uint64_t file_offset = 0;
  std::uint64_t length = 0;
  std::uint32_t parts = 0;
  Path path = Path::buffered;
};

struct Limits {
  std::uint64_t chunk_bytes = 1U << 20U;    ///< of one I/O; a multiple of 4096
  std::uint64_t vector_below = 64U << 10U;  ///< pieces this long get an I/O of their own
  std::uint64_t bounce_bytes = 64U << 10U;  ///< of one bounce buffer; a multiple of 4096
};

class Splitter {
 public:
  /// `segments` must stay as they are until done().
  void start(Segments segments, bool write, const Limits& limits) noexcept;
  bool done() const noexcept { return at_.segment >= segments_.size(); }
  const Position& at() const noexcept { return at_; }

  /// The next I/O; not done(). Its parts go into `parts`, which has room for at least one.
  Piece next(std::span<sys::IoPart> parts) noexcept;
  /// Whether the newest piece is the whole request.
  bool is_all(const Piece& piece) const noexcept { return done() && piece.start == first_; }
  /// Gives the newest piece back: next() makes it anew, under the rules that hold then.
  void rewind(const Piece& piece) noexcept { at_ = piece.start; }

 private:
  struct Rule {
    std::uint64_t room = 0;       ///< bytes of the I/O at most
    std::uint64_t alignment = 1;  ///< of address and length of each part
    bool gather = true;           ///< several parts, whatever their length
  };
  std::uint64_t take(Piece& piece, std::span<sys::IoPart> parts, const Rule& rule) noexcept;
  enum class Join { no, extend, append };
  Join join(const Piece& piece, std::span<const sys::IoPart> parts, const Extent& next,
            const Rule& rule) const noexcept;
  Rule bounce_rule(const Extent& first, std::uint64_t alignment) const noexcept;

  Segments segments_;
  Limits limits_;
  Position first_;
  Position at_;
  bool write_ = false;
};

}  // namespace towpath::backends::posix
