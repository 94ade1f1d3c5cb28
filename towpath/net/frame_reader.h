// FrameReader: puts sealed messages (wire/envelope.h) together from a stream of bytes.
//
// It does not know what they say. Invariants: a header is bounded before anything is stored for it;
// memory grows only by bytes that have arrived; what is given out has proven its checksum.
// Thread: one at a time.
#pragma once

#include <cstddef>
#include <optional>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/wire/envelope.h>

namespace towpath::net {

/// A message that has arrived whole. Moves; the payload stays valid with it.
struct Frame {
  wire::MessageKind kind;
  Bytes sealed;
  std::size_t payload_offset = 0;

  ConstByteSpan payload() const noexcept { return ConstByteSpan(sealed).subspan(payload_offset); }
};

class FrameReader {
 public:
  explicit FrameReader(const wire::OpenLimits& limits) noexcept : limits_(limits) {}

  /// What the next frame may be. Only between frames.
  void expect(const wire::OpenLimits& limits);

  /// How many more bytes can be taken before a frame, or its header, is whole; never 0.
  std::size_t wanted_bytes() const noexcept;
  /// Takes `bytes`, at most wanted_bytes() of them, and gives the frame when that made it whole.
  /// After a failure the stream is of no more use. Errors: wire::read_header()'s and
  /// wire::open()'s.
  Result<std::optional<Frame>> take(ConstByteSpan bytes);
  /// Whether a frame has begun and is not whole.
  bool is_inside_frame() const noexcept { return !buffer_.empty(); }
  /// What is held now.
  std::size_t buffered_bytes() const noexcept { return buffer_.size(); }

 private:
  wire::OpenLimits limits_;
  std::optional<wire::Header> header_;
  Bytes buffer_;
};

}  // namespace towpath::net
