// Piece iterators: go over the bytes of a frame where they lie here, piece after piece, from the
// front.
//
//   piece:  | extent | extent | extent |      one may stand within an extent: rest() is what
//                  ^                          is left of that one, and then the others
//
// A FramePieceIterator follows what a peer's frame names, a RequestPieceIterator what one of our
// own exchanges does. Both are values: a copy looks ahead. They move nothing. Thread: loop.
#pragma once

#include <bitset>
#include <cstdint>

#include <towpath/backend/segment_cursor.h>
#include <towpath/backends/messages/frames.h>

namespace towpath::backends::messages {

/// Where in a piece.
class PiecePlace {
 public:
  /// What is left of `piece` from here on that is equal extents; not of one that is over.
  Piece rest(const Piece& piece) const noexcept {
    Piece rest = piece;
    rest.address += extent_ * piece.stride + offset_;
    rest.length -= offset_;
    rest.count = offset_ > 0 ? 1 : piece.count - extent_;
    return rest;
  }
  /// At most as many bytes as are left of it. True: it is over.
  bool advance(const Piece& piece, std::uint64_t bytes) noexcept {
    const std::uint64_t at = std::uint64_t{extent_} * piece.length + offset_ + bytes;
    extent_ = static_cast<std::uint32_t>(at / piece.length);
    offset_ = static_cast<std::uint32_t>(at % piece.length);
    return extent_ == piece.count;
  }
  std::uint64_t left(const Piece& piece) const noexcept {
    return piece.bytes() - std::uint64_t{extent_} * piece.length - offset_;
  }

 private:
  std::uint32_t extent_ = 0;
  std::uint32_t offset_ = 0;
};

/// Pieces that are left out.
using PieceSet = std::bitset<kMaxPieces>;

class FramePieceIterator {
 public:
  FramePieceIterator() = default;
  /// `frame` and, if given, `without` must live as long as the iterator is used.
  explicit FramePieceIterator(const Frame& frame, const PieceSet* without = nullptr) noexcept
      : frame_(&frame), without_(without) {
    settle();
  }

  bool done() const noexcept { return index_ == frame_->header.count; }
  std::uint16_t index() const noexcept { return index_; }  ///< of the piece
  Piece rest() const noexcept { return place_.rest(piece_); }
  void advance(std::uint64_t bytes) noexcept;

 private:
  void settle() noexcept;

  const Frame* frame_ = nullptr;
  const PieceSet* without_ = nullptr;
  std::uint16_t index_ = 0;
  Piece piece_;
  PiecePlace place_;
};

/// The next piece of a request and where its bytes lie here.
struct LocalPiece {
  Piece piece;
  const backend::Memory* local = nullptr;
  std::uint64_t local_address = 0;
  std::uint64_t local_stride = 0;
  std::uint64_t segment = 0;
  std::uint64_t extent = 0;
  std::uint64_t offset = 0;  ///< in the first extent; not 0 only if count is 1
  bool is_device = false;    ///< there
};

/// Takes a piece of at most `room` bytes (not 0) from the cursor, which must not be done().
LocalPiece take_piece(backend::SegmentCursor& at, std::uint64_t room);

class RequestPieceIterator {
 public:
  RequestPieceIterator() = default;
  /// The `bytes` of a request from `at` on, which one exchange moves; without the pieces that
  /// `answer`, if given, refuses.
  RequestPieceIterator(const backend::SegmentCursor& at, std::uint64_t bytes,
                       const Frame* answer = nullptr) noexcept
      : at_(at), left_(bytes), answer_(answer) {
    settle();
  }

  bool done() const noexcept { return is_over_; }
  /// Of the piece, among all of the exchange.
  std::uint32_t index() const noexcept { return static_cast<std::uint32_t>(next_piece_ - 1); }
  /// Whether an access to the piece may end in a signal.
  bool may_fault() const noexcept;
  Piece rest() const noexcept { return place_.rest(here_); }
  void advance(std::uint64_t bytes) noexcept;

 private:
  void settle() noexcept;

  backend::SegmentCursor at_;  ///< behind the piece
  std::uint64_t left_ = 0;     ///< behind the piece
  const Frame* answer_ = nullptr;
  std::size_t next_piece_ = 0;
  std::size_t next_refusal_ = 0;
  Piece here_;
  const backend::Memory* memory_ = nullptr;  ///< of it
  PiecePlace place_;
  bool is_over_ = true;
};

}  // namespace towpath::backends::messages
