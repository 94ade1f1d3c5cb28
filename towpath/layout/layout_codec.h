// A LayoutDescriptor as bytes, for another agent. The format: docs/formats/layout.md.
//
// What comes in is hostile: it is bounded before anything is allocated, proven by its checksum,
// held against the schema, and validated like a local layout before anybody sees it. Thread: any.
#pragma once

#include <cstdint>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/layout/layout.h>

namespace towpath::layout {

inline constexpr std::uint16_t kLayoutVersion = 1;
/// Of the payload: kMaxRegions regions, each with its numbers at their longest, and the rest.
inline constexpr std::uint64_t kMaxLayoutBytes = kMaxRegions * 56 + kMaxAgentName + 8192;

/// A sealed message. Errors: as LayoutDescriptor::validate(); invalid_argument (no agent name or no
/// incarnation: a peer could not report whose memory it is).
Result<Bytes> encode(const LayoutDescriptor& descriptor);

/// Errors: unsupported (a version that is newer, or 0; a field that this version must know and does
/// not), corrupt (damaged, cut off, a field that is missing, twice or not a value), out_of_range
/// (over a limit), invalid_argument (another message; a descriptor that is not valid).
Result<LayoutDescriptor> decode_layout(ConstByteSpan bytes);

}  // namespace towpath::layout
