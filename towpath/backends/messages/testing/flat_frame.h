// A frame as one row of bytes, head and payload, for tests that write or cut them as they like.
// Thread: any.
#pragma once

#include <algorithm>
#include <utility>

#include <towpath/backends/messages/frames.h>
#include <towpath/wire/little_endian.h>

namespace towpath::backends::messages::testing {

inline Bytes flat(net::MessageBuffer& buffer) {
  const ConstByteSpan filled = buffer.filled();
  return {filled.begin(), filled.end()};
}

/// Head and payload of a row of bytes that says in its header how many records it has.
inline std::pair<ConstByteSpan, ConstByteSpan> split(ConstByteSpan bytes) {
  if (bytes.size() < kHeaderBytes) return {bytes, {}};
  const auto kind = static_cast<FrameKind>(bytes[4]);
  const bool has_pieces = kind == FrameKind::write || kind == FrameKind::read;
  const bool has_refusals = kind == FrameKind::wrote || kind == FrameKind::data;
  const std::size_t each = has_pieces                ? kPieceBytes
                           : has_refusals            ? kRefusalBytes
                           : kind == FrameKind::note ? net::Mac::kProofBytes
                                                     : 0;
  const std::size_t head = kHeaderBytes + each * wire::load<std::uint16_t>(bytes.subspan(6)) +
                           (is_sealed(kind) ? net::kSealBytes : 0);
  return {bytes.first(std::min(head, bytes.size())), bytes.subspan(std::min(head, bytes.size()))};
}

inline Result<Frame> decode_flat(ConstByteSpan bytes) {
  const auto [head, payload] = split(bytes);
  return decode_frame(head, payload.size());
}

}  // namespace towpath::backends::messages::testing
