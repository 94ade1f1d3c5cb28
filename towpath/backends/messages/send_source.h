// SendSource: the bytes of a frame on their way out, straight from where they lie.
// Thread: loop.
#pragma once

#include <algorithm>
#include <span>
#include <utility>

#include <towpath/backends/messages/piece_iterator.h>
#include <towpath/net/messages/message_worker.h>
#include <towpath/sys/guarded_copy.h>

namespace towpath::backends::messages {

/// Whether bytes should leave from where they lie, and land where they belong, rather than be
/// copied together: a part of a message costs a carrier some 30 ns, as much as copying 2 KiB; and
/// what is copied needs nobody to wait for it.
inline bool is_worth_parts(std::uint64_t bytes, std::uint64_t extents) noexcept {
  constexpr std::uint64_t kLeastBytes = 16 * 1024;
  constexpr std::uint64_t kLeastExtent = 2048;
  return bytes >= kLeastBytes && bytes >= extents * kLeastExtent;
}

/// The kernel takes the bytes from where they lie, and what it cannot read a GuardedCopy names.
template <typename Iterator>
class SendSource : public net::BodySource {
 public:
  /// `bytes`: of all pieces. `guard` outlives it.
  struct Form {
    bool has_trailer = false;
    bool may_fault = true;  ///< RegionDescriptor::may_fault, of any piece
  };
  void begin(const Iterator& pieces, std::uint64_t bytes, sys::GuardedCopy& guard,
             const Form& form) noexcept {
    pieces_ = pieces;
    left_ = bytes;
    guard_ = &guard;
    unread_ = {};
    trailer_left_ = form.has_trailer ? unread_.size() : 0;
    may_fault_ = form.may_fault;
    is_leaving_ = true;
    has_faulted_ = false;
  }
  /// Of a request whose bytes do not leave from here.
  void clear_fault() noexcept { has_faulted_ = false; }
  bool is_leaving() const noexcept { return is_leaving_; }
  /// Some of it could not be read, and other bytes left for it.
  bool has_faulted() const noexcept { return has_faulted_; }
  /// That have not left.
  std::uint64_t bytes() const noexcept { return left_ + trailer_left_; }

  std::size_t parts(std::span<ConstByteSpan> into) override {
    std::size_t count = 0;
    for (Iterator at = pieces_; !at.done();) {
      const Piece rest = at.rest();
      std::uint32_t k = 0;
      for (; k < rest.count && count < into.size(); ++k)
        into[count++] = bytes_at(rest.address + k * rest.stride, rest.length);
      if (count == into.size()) return count;
      at.advance(std::uint64_t{k} * rest.length);
    }
    if (trailer_left_ > 0) into[count++] = trailer();
    return count;
  }
  void left(std::uint64_t bytes) override {
    const std::uint64_t of_pieces = std::min(bytes, left_);
    pieces_.advance(of_pieces);
    left_ -= of_pieces;
    trailer_left_ -= bytes - of_pieces;
  }
  void copy_out(ByteSpan into) override {
    const std::uint64_t of_pieces = std::min<std::uint64_t>(into.size(), left_);
    if (of_pieces > 0) read_guarded(into.first(of_pieces));
    copy_bytes(trailer().first(into.size() - of_pieces), into.data() + of_pieces);
    left(into.size());
  }
  bool may_fault() const noexcept override { return may_fault_; }
  void done() override { is_leaving_ = false; }

 private:
  ConstByteSpan trailer() const noexcept { return ConstByteSpan(unread_).last(trailer_left_); }

  void read_guarded(ByteSpan into) {
    guard_->begin(sys::GuardedCopy::Direction::out_of_memory);
    for (Iterator at = pieces_; !into.empty();) {
      const Piece rest = at.rest();
      const std::uint64_t length = std::min<std::uint64_t>(rest.length, into.size());
      guard_->add(
          {.own = into.data(), .address = rest.address, .length = length, .tag = at.index()});
      into = into.subspan(length);
      at.advance(length);
    }
    for (const std::uint32_t piece : guard_->finish()) {
      name_in(unread_, piece);
      has_faulted_ = true;
    }
  }

  Iterator pieces_;
  std::uint64_t left_ = 0;  ///< bytes of pieces
  sys::GuardedCopy* guard_ = nullptr;
  Trailer unread_{};
  std::size_t trailer_left_ = 0;
  bool is_leaving_ = false;
  bool has_faulted_ = false;
  bool may_fault_ = true;
};

}  // namespace towpath::backends::messages
