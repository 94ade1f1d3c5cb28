// Frame: what two agents say to each other about metadata, over net::FramedConnection.
// docs/formats/rendezvous_frame.md draws it.
//
// Metadata's bytes are opaque here, and carry a checksum of their own besides the frame's.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <string_view>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/rendezvous/rendezvous.h>
#include <towpath/wire/envelope.h>

namespace towpath::rendezvous {

/// What both sides name in their hello.
inline constexpr std::string_view kMetadataService = "cards";

enum class FrameKind : std::uint8_t {
  fetch = 1,     ///< request: the metadata of `name`, please
  publish = 2,   ///< request: `metadata` is the metadata of `name`
  withdraw = 3,  ///< request: `name` is no more
  metadata = 4,  ///< reply to fetch: `metadata` is the metadata of `name`
  done = 5,      ///< reply to publish and withdraw
  refused = 6,   ///< reply to anything: `why`
};

struct Frame {
  FrameKind kind = FrameKind::done;
  MetadataName name;
  Bytes metadata = {};
  Status why = {};  ///< of a refusal: code and message
};

/// What a reader takes that takes metadata of so many bytes.
wire::OpenLimits frame_limits(std::size_t max_metadata_bytes) noexcept;

/// Sealed. The name and the metadata are checked.
Bytes encode(const Frame& frame);
/// Errors: corrupt, unsupported (an unknown field that must be known), out_of_range.
Result<Frame> decode_frame(ConstByteSpan payload);

}  // namespace towpath::rendezvous
