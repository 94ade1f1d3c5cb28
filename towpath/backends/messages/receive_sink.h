// ReceiveSink: the bytes of a frame on their way in, straight to where they belong.
//
//   long extents:   room() is the memory itself, some of it at a time; the kernel writes there
//   all others:       room() is a buffer; what came is put in place when the buffer is full
//                     (short extents, a device's memory, what was refused, and what the kernel
//                     could not write)
//   from a device:    the whole body stands there when it comes, and is copied by it
//   a trailer:        behind all pieces, to a place of its own
//
// What is put in place by this side is put there by a GuardedCopy where an access may fault, and
// the pieces that do are refused. Memory that is not known to be our own may be unmapped by its
// owner at any time.
//
// Before anything can land, whoever derives from it is asked whether it still may (may_land): for
// the next kStepBytes at most (for all that a device has), and each time that room is asked for. So
// no memory of a user is ever in the hands of a carrier between two calls. Thread: loop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <towpath/backends/messages/device_window.h>
#include <towpath/backends/messages/piece_iterator.h>
#include <towpath/net/messages/message_worker.h>
#include <towpath/sys/guarded_copy.h>

namespace towpath::backends::messages {

/// What a piece of a frame is, at this moment.
struct PieceVerdict {
  Code verdict = Code::ok;         ///< else nothing lands there, and the reason
  DeviceWindow* window = nullptr;  ///< to the device whose memory it is, null for the host's
  bool may_fault = false;          ///< RegionDescriptor::may_fault
};

template <typename Iterator>
class ReceiveSink : public net::BodySink {
 public:
  /// Bytes that land between two looks at whether they may.
  static constexpr std::uint64_t kStepBytes = 128 * 1024;

  /// All that a unit is unsure of has room from now on: what throws half way through it would have
  /// placed some of its bytes, and nobody could say which.
  ReceiveSink() { unsure_.reserve(kMostUnsure); }

  std::size_t room(std::span<ByteSpan> into) final {
    is_barred_ = is_barred_ || !is_wanted();
    if (is_barred_) return 0;
    offered_ = 0;
    std::size_t parts = 0;
    if (!pieces_.done()) {
      parts = room_of_pieces(into.first(into.size() - (trailer_.empty() ? 0 : 1)));
      if (parts == 0) return 0;
      for (const ByteSpan part : into.first(parts)) offered_ += part.size();
    }
    if (offered_ == missing_ && !trailer_.empty()) into[parts++] = trailer_;
    return parts;
  }

  void came(std::uint64_t bytes) final {
    const std::uint64_t of_pieces = std::min(bytes, offered_);
    trailer_ = trailer_.subspan(bytes - of_pieces);
    missing_ -= of_pieces;
    offered_ -= of_pieces;
    if (of_pieces == 0) return;
    if (unit_ == 0) return pieces_.advance(of_pieces);
    gathered_ += of_pieces;
    if (gathered_ == unit_) put_in_place(address_of(buffer_.get()), nullptr);
  }

  bool faulted() final {
    is_barred_ = std::exchange(is_guarded_, true);
    return !is_barred_;
  }
  void comes_by_process() final { is_by_process_ = true; }

  bool take(ConstByteSpan bytes) final {
    while (!bytes.empty()) {
      is_barred_ = is_barred_ || !is_wanted();
      if (is_barred_) return false;
      std::uint64_t some = bytes.size();
      if (gathered_ > 0) {
        some = std::min(some, unit_ - gathered_);
        offered_ = some;
        copy_bytes(bytes.first(some), buffer_.get() + gathered_);
        came(some);
      } else if (missing_ > 0) {
        some = unit_ = std::min({some, missing_, kStepBytes});
        missing_ -= some;
        put_in_place(address_of(bytes.data()), nullptr);
      } else {
        some = std::min<std::uint64_t>(some, trailer_.size());
        if (some == 0) return false;
        copy_bytes(bytes.first(some), trailer_.data());
        trailer_ = trailer_.subspan(some);
      }
      bytes = bytes.subspan(some);
    }
    return true;
  }

  /// In place of room() and came(): all `bytes` stand from `source` on, in the memory of a device,
  /// and `via` copies.
  void land_from(std::uint64_t source, std::uint64_t bytes, DeviceWindow& via) {
    if (pieces_.done()) return;  // nobody waits for them
    missing_ = 0;
    unit_ = bytes;
    put_in_place(source, &via);
  }

 protected:
  /// `bytes`: of all pieces. `trailer`: where what comes behind them goes, if something does. Both
  /// that and `guard` outlive the body.
  void begin(const Iterator& pieces, std::uint64_t bytes, sys::GuardedCopy& guard,
             ByteSpan trailer = {}) noexcept {
    pieces_ = pieces;
    missing_ = bytes;
    guard_ = &guard;
    trailer_ = trailer;
    unit_ = gathered_ = 0;
    is_barred_ = is_guarded_ = is_by_process_ = false;
  }
  /// Whether bytes were dropped because they may not land any more.
  bool is_barred() const noexcept { return is_barred_; }

  /// False: nobody waits for the bytes any more, and the iterator leads to no memory.
  virtual bool is_wanted() const = 0;
  virtual PieceVerdict verdict(const Iterator& at) const = 0;
  /// Whether a step's bytes may land now.
  virtual bool may_land() = 0;
  /// The piece at `at` takes no bytes, or not all.
  virtual void refuse(const Iterator& at, Code why) = 0;

 private:
  static constexpr std::uint64_t kStraightBytes = 2048;  ///< of an extent, at least

  std::size_t room_of_pieces(std::span<ByteSpan> into) {
    if (gathered_ == 0) {
      unit_ = 0;
      if (const std::size_t parts = straight_room(into)) return bar_unless_fresh(parts);
      unit_ = indirect_bytes();
    }
    if (!buffer_) buffer_ = std::make_unique_for_overwrite<std::byte[]>(kStepBytes);
    into.front() = {buffer_.get() + gathered_, unit_ - gathered_};
    return 1;
  }

  bool is_straight(const Iterator& at) const {
    if (is_guarded_ || at.rest().length < kStraightBytes) return false;
    const PieceVerdict here = verdict(at);
    return here.verdict == Code::ok && here.window == nullptr &&
           !(is_by_process_ && here.may_fault);
  }

  std::size_t straight_room(std::span<ByteSpan> into) const {
    std::size_t parts = 0;
    std::uint64_t left = kStepBytes;
    for (Iterator at = pieces_; !at.done() && parts < into.size() && left > 0 && is_straight(at);) {
      const Piece rest = at.rest();
      std::uint64_t given = 0;
      for (std::uint32_t k = 0; k < rest.count && parts < into.size() && left > 0; ++k) {
        const std::uint64_t size = std::min<std::uint64_t>(rest.length, left);
        into[parts++] = bytes_at(rest.address + k * rest.stride, size);
        given += size;
        left -= size;
      }
      at.advance(given);
    }
    return parts;
  }

  std::size_t bar_unless_fresh(std::size_t parts) {
    is_barred_ = !may_land();
    return is_barred_ ? 0 : parts;
  }

  /// Of the pieces from here on, up to a step, whose bytes do not go straight.
  std::uint64_t indirect_bytes() const {
    std::uint64_t bytes = 0;
    for (Iterator at = pieces_; !at.done() && bytes < kStepBytes && !is_straight(at);) {
      const std::uint64_t more = std::min(at.rest().bytes(), kStepBytes - bytes);
      bytes += more;
      at.advance(more);
    }
    return bytes;
  }

  /// The unit, which stands from `from` on: in a buffer, or in the memory of `via`'s device.
  void put_in_place(std::uint64_t from, DeviceWindow* via) {
    bool is_allowed = false;  // one look for all of the unit
    DeviceWindow* window = via;
    std::uint64_t pinned = 0;  // bytes in its room
    guard_->begin(sys::GuardedCopy::Direction::into_memory);
    for (std::uint64_t left = unit_; left > 0 && !is_barred_;) {
      const Piece next = next_piece(left);
      PieceVerdict here = verdict(pieces_);
      // A device's driver would not survive the fault, and an honest peer's list has one kind.
      if (here.verdict == Code::ok && via != nullptr && here.may_fault)
        here.verdict = Code::io_error;
      if (here.verdict == Code::ok && !is_allowed && !(is_allowed = may_land())) {
        is_barred_ = true;
        break;
      }
      const bool by_device = via != nullptr || here.window != nullptr;
      const bool by_guard = !by_device && (is_guarded_ || here.may_fault);
      if (here.verdict != Code::ok || by_device || by_guard)
        unsure_.push_back({pieces_, here.verdict, by_device});
      if (here.verdict == Code::ok && by_device) {
        if (window == nullptr) window = here.window;
        window->store(next, via != nullptr ? from : pin(from, next.bytes(), *window, pinned));
      } else if (here.verdict == Code::ok && by_guard) {
        guard(next, bytes_at(from, 0).data());
      } else if (here.verdict == Code::ok) {
        store(next, bytes_at(from, next.bytes()).data());
      }
      from += next.bytes();
      left -= next.bytes();
      pieces_.advance(next.bytes());
    }
    settle(window);
    gathered_ = unit_ = 0;
  }

  /// Of at most `left` bytes.
  Piece next_piece(std::uint64_t left) const {
    Piece next = pieces_.rest();
    next.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(next.length, left));
    next.count =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(next.count, left / next.length));
    return next;
  }

  // Of a piece a unit has at most the end of an extent, whole ones, and the begin of one.
  static constexpr std::size_t kMostUnsure = 3 * kMaxPieces;
  static_assert(kMostUnsure <= sys::GuardedCopy::kMostFaults);

  /// The piece that is unsure last, in the next settle().
  void guard(const Piece& piece, std::byte* from) {
    const auto tag = static_cast<std::uint32_t>(unsure_.size() - 1);
    for (std::uint32_t k = 0; k < piece.count; ++k, from += piece.length)
      guard_->add({.own = from,
                   .address = piece.address + k * piece.stride,
                   .length = piece.length,
                   .tag = tag});
  }

  /// Where the bytes are in the window's room, in which `used` bytes are taken.
  static std::uint64_t pin(std::uint64_t from, std::uint64_t bytes, const DeviceWindow& window,
                           std::uint64_t& used) {
    const ByteSpan room = window.room().subspan(used, bytes);
    copy_bytes(bytes_at(from, bytes), room.data());
    used += bytes;
    return address_of(room.data());
  }

  /// Copies what is a device's, and refuses what did not land: in the order of the pieces.
  void settle(DeviceWindow* window) {
    const bool is_copied = window == nullptr || window->finish().ok();
    for (const std::uint32_t tag : guard_->finish()) unsure_[tag].verdict = Code::io_error;
    for (const Unsure& one : unsure_) {
      const bool failed = one.verdict == Code::ok && one.by_device && !is_copied;
      const Code outcome = failed ? Code::io_error : one.verdict;
      if (outcome != Code::ok) refuse(one.at, outcome);
    }
    unsure_.clear();
  }

  static void store(const Piece& piece, const std::byte* from) {
    for (std::uint32_t k = 0; k < piece.count; ++k, from += piece.length)
      std::memcpy(bytes_at(piece.address + k * piece.stride, piece.length).data(), from,
                  piece.length);
  }

  /// A piece that is refused, or may still be.
  struct Unsure {
    Iterator at;
    Code verdict = Code::ok;
    bool by_device = false;
  };

  Iterator pieces_;
  std::uint64_t missing_ = 0;   ///< bytes of pieces that have not come
  std::uint64_t offered_ = 0;   ///< of them, what room() gave
  std::uint64_t unit_ = 0;      ///< bytes that are gathered next; 0: room() is memory
  std::uint64_t gathered_ = 0;  ///< of them
  ByteSpan trailer_;            ///< what has not come of it
  sys::GuardedCopy* guard_ = nullptr;
  bool is_guarded_ = false;  ///< some of the memory could not be written: this side finds out which
  bool is_by_process_ = false;  ///< what it gives is not written by the kernel
  bool is_barred_ = false;
  std::unique_ptr<std::byte[]> buffer_;  ///< made when first needed
  std::vector<Unsure> unsure_;
};

}  // namespace towpath::backends::messages
