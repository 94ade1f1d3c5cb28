// The envelope around every message: what it is, how long it is, and a checksum over all of it.
//
//   offset 0         4          6         8         10        12       16        24         32
//   +----------------+----------+---------+---------+---------+--------+---------+----------+
//   | "TOWP"         | envelope | header  | message | message | 0      | payload | checksum |
//   |                | version  | length  | type    | version |        | length  | XXH3-64  |
//   +----------------+----------+---------+---------+---------+--------+---------+----------+
//     4 bytes          u16        u16       u16       u16       u32      u64       u64
//
// Numbers are little-endian. The payload follows the header; the checksum covers every other byte
// of both. docs/formats/envelope.md says more. The checksum finds accidents, not forgery: whoever
// may write to the socket or the disk may write a valid envelope.
// Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>

namespace towpath::wire {

// What an envelope can hold, as numbers that lie on disks and cross to other versions.
//
// Never renumber, never reuse; append. A message also has a version of its own (envelope.h): it
// grows only when an old reader must refuse the whole message; a new field needs no new version.
// Thread: immutable.
enum class MessageType : std::uint16_t {
  metadata = 1,          ///< what an agent gives its peers
  notification = 2,      ///< a user's message, bound to a transfer or alone
  layout = 3,            ///< the geometry of a KV cache
  block_header = 4,      ///< what stands before a block on disk
  peer_hello = 5,        ///< the first words of two agents on a connection
  rendezvous_frame = 6,  ///< a request or reply of a rendezvous
  connection_info = 7,   ///< how one backend of an agent is reached: a part of its metadata
  replay_control = 8,    ///< what the processes of `towpath replay` say to each other
  memory_key = 9,        ///< how one backend of an agent reaches a region: a part of its metadata
  layout_package = 10,   ///< the caches of one agent, with its metadata
  pe_exchange = 11,      ///< what the PEs of a job exchange before it begins
  segment_header = 16,   ///< what a segment file of KV blocks begins with
  block_index = 17,      ///< where KV blocks lie in segments, so that a restart need not look
  step_orders = 20,      ///< what the workers of an engine shall load and save in a step
  worker_report = 21,    ///< what came of it, from one worker
  blob_header = 22,      ///< what a file of a named blob begins with
  block_lease = 23,      ///< what a lessee of KV blocks and their owner say to each other
  block_catalogue = 24,  ///< which KV blocks an agent grants, and from where
  drive_label = 25,      ///< what a drive begins with that holds stores of KV blocks
  drive_table = 26,      ///< which files lie where on it
};

/// The enumerator's own name; "unknown" for a value that this version does not know.
std::string_view name_of(MessageType type) noexcept;

/// The header that this version writes. A later one may be longer, up to kMaxHeaderBytes.
inline constexpr std::size_t kHeaderBytes = 32;
inline constexpr std::size_t kMaxHeaderBytes = 256;
inline constexpr std::uint16_t kEnvelopeVersion = 1;

struct MessageKind {
  MessageType type = MessageType::metadata;
  std::uint16_t version = 1;  ///< never 0

  friend bool operator==(const MessageKind&, const MessageKind&) = default;
};

/// What a reader is prepared to take.
struct OpenLimits {
  MessageType type = MessageType::metadata;
  std::uint16_t max_version = 1;
  std::uint64_t max_payload_bytes = 0;
};

/// What the first kHeaderBytes say. Not yet proven: the checksum covers the payload too.
struct Header {
  MessageKind kind;
  std::uint64_t header_bytes = 0;
  std::uint64_t payload_bytes = 0;

  std::uint64_t total_bytes() const noexcept { return header_bytes + payload_bytes; }
};

struct Message {
  MessageKind kind;
  ConstByteSpan payload;  ///< part of the span that was opened, and as long-lived
};

/// The payload in an envelope. Equal arguments give equal bytes, on every machine.
Bytes seal(MessageKind kind, ConstByteSpan payload);
/// The same of a payload that stands behind room for the header: kHeaderBytes, which it fills.
void seal_in_place(MessageKind kind, ByteSpan message);

/// Whether more bytes after these could make them an envelope: for the reader of a stream, which
/// hears garbage before a whole header of it has come. Errors: corrupt.
Status check_beginning(ConstByteSpan bytes);

/// Reads the header, for a reader of a stream that must know how much to expect, and bounds it.
/// `bytes` may hold more than the header.
/// Errors: corrupt (short, not an envelope), unsupported (a newer version), invalid_argument
/// (another type of message), out_of_range (a payload over the limit).
Result<Header> read_header(ConstByteSpan bytes, const OpenLimits& limits);

/// Takes a whole envelope, neither shorter nor longer than it says, and proves it by its checksum.
/// Cost: one pass over the bytes; no allocation. Errors: as read_header(); corrupt also for a
/// length or checksum that does not match.
Result<Message> open(ConstByteSpan bytes, const OpenLimits& limits);
/// The same of an envelope that other bytes may follow: a page's, or what lies in a file of a fixed
/// length. Errors: corrupt also when it says that it is longer than what is here.
Result<Message> open_first(ConstByteSpan bytes, const OpenLimits& limits);

}  // namespace towpath::wire
