// SendSource: the bytes of a frame on their way out, straight from where they lie.
// Thread: loop.
#pragma once

#include <span>
#include <utility>

#include <towpath/backends/messages/piece_iterator.h>
#include <towpath/net/messages/message_worker.h>

namespace towpath::backends::messages {

/// Whether bytes should leave from where they lie, and land where they belong, rather than be
/// copied together: a part of a message costs a carrier some 30 ns, as much as copying 2 KiB; and
/// what is copied needs nobody to wait for it.
inline bool is_worth_parts(std::uint64_t bytes, std::uint64_t extents) noexcept {
  constexpr std::uint64_t kLeastBytes = 16 * 1024;
  constexpr std::uint64_t kLeastExtent = 2048;
  return bytes >= kLeastBytes && bytes >= extents * kLeastExtent;
}

template <typename Iterator>
class SendSource : public net::BodySource {
 public:
  void begin(const Iterator& pieces) noexcept {
    pieces_ = pieces;
    is_leaving_ = true;
  }
  bool is_leaving() const noexcept { return is_leaving_; }

  std::size_t parts(std::span<ConstByteSpan> into) override {
    std::size_t count = 0;
    for (Iterator at = pieces_; !at.done() && count < into.size();) {
      const Piece rest = at.rest();
      std::uint32_t k = 0;
      for (; k < rest.count && count < into.size(); ++k)
        into[count++] = bytes_at(rest.address + k * rest.stride, rest.length);
      at.advance(std::uint64_t{k} * rest.length);
    }
    return count;
  }
  void left(std::uint64_t bytes) override { pieces_.advance(bytes); }
  void done() override { is_leaving_ = false; }

 private:
  Iterator pieces_;
  bool is_leaving_ = false;
};

}  // namespace towpath::backends::messages
