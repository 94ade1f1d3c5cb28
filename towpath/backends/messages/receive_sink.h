// ReceiveSink: the bytes of a frame on their way in, straight to where they belong.
//
//   long extents:   room() is the memory itself, some of it at a time
//   all others:       room() is a buffer; what came is put in place when the buffer is full
//                     (short extents, a device's memory, what was refused)
//   from a device:    the whole body stands there when it comes, and is copied by it
//
// Before anything can land, whoever derives from it is asked whether it still may (may_land): for
// the next kStepBytes at most (for all that a device has), and each time that room is asked for. So
// no memory of a user is ever in the hands of a carrier between two calls. Thread: loop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <towpath/backends/messages/device_window.h>
#include <towpath/backends/messages/piece_iterator.h>
#include <towpath/net/messages/message_worker.h>

namespace towpath::backends::messages {

/// What a piece of a frame is, at this moment.
struct PieceVerdict {
  Code verdict = Code::ok;         ///< else nothing lands there, and the reason
  DeviceWindow* window = nullptr;  ///< to the device whose memory it is, null for the host's
};

template <typename Iterator>
class ReceiveSink : public net::BodySink {
 public:
  /// Bytes that land between two looks at whether they may.
  static constexpr std::uint64_t kStepBytes = 128 * 1024;

  std::size_t room(std::span<ByteSpan> into) final {
    is_barred_ = is_barred_ || !is_wanted();
    if (is_barred_ || pieces_.done()) return 0;
    if (gathered_ == 0) {
      unit_ = 0;
      if (const std::size_t parts = straight_room(into)) return bar_unless_fresh(parts);
      unit_ = indirect_bytes();
    }
    if (!buffer_) buffer_ = std::make_unique_for_overwrite<std::byte[]>(kStepBytes);
    into.front() = {buffer_.get() + gathered_, unit_ - gathered_};
    return 1;
  }

  void came(std::uint64_t bytes) final {
    if (unit_ == 0) return pieces_.advance(bytes);
    gathered_ += bytes;
    if (gathered_ != unit_) return;
    put_in_place(address_of(buffer_.get()), nullptr);
  }

  /// In place of room() and came(): all `bytes` stand from `source` on, in the memory of a device,
  /// and `via` copies.
  void land_from(std::uint64_t source, std::uint64_t bytes, DeviceWindow& via) {
    if (pieces_.done()) return;  // nobody waits for them
    unit_ = bytes;
    put_in_place(source, &via);
  }

 protected:
  void begin(const Iterator& pieces) noexcept {
    pieces_ = pieces;
    unit_ = gathered_ = 0;
    is_barred_ = false;
  }
  /// Whether bytes were dropped because they may not land any more.
  bool is_barred() const noexcept { return is_barred_; }

  /// False: nobody waits for the bytes any more, and the walk leads nowhere.
  virtual bool is_wanted() const = 0;
  virtual PieceVerdict verdict(const Iterator& at) const = 0;
  /// Whether a step's bytes may land now.
  virtual bool may_land() = 0;
  /// The piece at `at` takes no bytes, or not all.
  virtual void refuse(const Iterator& at, Code why) = 0;

 private:
  static constexpr std::uint64_t kStraightBytes = 2048;  ///< of an extent, at least

  bool is_straight(const Iterator& at) const {
    if (at.rest().length < kStraightBytes) return false;
    const PieceVerdict here = verdict(at);
    return here.verdict == Code::ok && here.window == nullptr;
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

  /// The unit, which stands from `from` on: in the buffer, or in the memory of `via`'s device.
  void put_in_place(std::uint64_t from, DeviceWindow* via) {
    bool is_allowed = false;  // one look for all of the unit
    DeviceWindow* window = via;
    std::uint64_t pinned = 0;  // bytes in its room
    for (std::uint64_t left = unit_; left > 0 && !is_barred_;) {
      Piece next = pieces_.rest();
      next.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(next.length, left));
      next.count =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(next.count, left / next.length));
      const PieceVerdict here = verdict(pieces_);
      if (here.verdict == Code::ok && !is_allowed && !(is_allowed = may_land())) {
        is_barred_ = true;
        break;
      }
      const bool is_copied = via != nullptr || here.window != nullptr;  // by a device
      if (here.verdict != Code::ok || is_copied) unsure_.push_back({pieces_, here.verdict});
      if (here.verdict == Code::ok && is_copied) {
        if (window == nullptr) window = here.window;
        window->store(next, via != nullptr ? from : pin(from, next.bytes(), *window, pinned));
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

  /// Where the bytes are in the window's room, in which `used` bytes are taken.
  static std::uint64_t pin(std::uint64_t from, std::uint64_t bytes, const DeviceWindow& window,
                           std::uint64_t& used) {
    const ByteSpan room = window.room().subspan(used, bytes);
    std::ranges::copy(bytes_at(from, bytes), room.begin());
    used += bytes;
    return address_of(room.data());
  }

  /// Copies what is a device's, and refuses what did not land: in the order of the pieces.
  void settle(DeviceWindow* window) {
    const bool is_copied = window == nullptr || window->finish().ok();
    for (const auto& [at, verdict] : unsure_) {
      const Code outcome = verdict == Code::ok && !is_copied ? Code::io_error : verdict;
      if (outcome != Code::ok) refuse(at, outcome);
    }
    unsure_.clear();
  }

  static void store(const Piece& piece, const std::byte* from) {
    for (std::uint32_t k = 0; k < piece.count; ++k, from += piece.length)
      std::memcpy(bytes_at(piece.address + k * piece.stride, piece.length).data(), from,
                  piece.length);
  }

  Iterator pieces_;
  std::uint64_t unit_ = 0;      ///< bytes that are gathered next; 0: room() is memory
  std::uint64_t gathered_ = 0;  ///< of them
  bool is_barred_ = false;
  std::unique_ptr<std::byte[]> buffer_;            ///< made when first needed
  std::vector<std::pair<Iterator, Code>> unsure_;  ///< pieces that are refused, or may still be
};

}  // namespace towpath::backends::messages
