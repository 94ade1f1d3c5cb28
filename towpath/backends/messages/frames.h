// What two backends that speak in messages say to each other: frames, one per message.
//
//   0               4      5       6       8         16      24     32     40
//   +-----------------+------+-------+-------+---------+-------+------+----+---------+------+
//   | "TPU" | version | kind | flags | count | session | stamp | echo | id | records | seal |
//   +-----------------+------+-------+-------+---------+-------+------+----+---------+------+
//     4 bytes           u8     u8      u16     u64       u64     u64    u64
//
//   count    records: pieces (write, read), refusals (wrote, data), or a payload's proof (note)
//   session  the sender's, random: the receiver knows by it who speaks
//   stamp    the sender's clock when it wrote this; means something to the sender only
//   echo     the newest stamp that the sender has heard from the receiver: a grant (link.h)
//   id       of a request, repeated in its answer; of a note, its number
//   seal     proves that the head is the sender's, and when it was sent (net/session); a hello,
//            which proves itself, has none
//
// Header, records and seal are the head of a message, the payload is its body (net/messages).
// Little-endian. docs/formats/message_frame.md says more. decode_frame() proves all that can be
// proven without knowing the receiver: after it, sizes and counts agree and no range wraps.
// Thread: immutable.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/core/status.h>
#include <towpath/net/messages/message_worker.h>
#include <towpath/net/session/seal.h>

namespace towpath::backends::messages {

enum class FrameKind : std::uint8_t {
  hello = 1,    ///< payload: a message of the handshake (net/session); id: the receiver's session
  alive = 2,    ///< a heartbeat
  bye = 3,      ///< the sender closes
  write = 4,    ///< pieces, and their bytes one after the other
  wrote = 5,    ///< the answer to a write: which pieces were refused
  read = 6,     ///< pieces
  data = 7,     ///< the answer to a read: refusals, and the bytes of the other pieces
  note = 8,     ///< the proof of its payload, a notification
  noted = 9,    ///< id: the number of the last note that was taken
  fence = 10,   ///< id: a session of the receiver's, of this link, that is to end
  fenced = 11,  ///< the answer: it has ended, and nothing of it is placed from now on
};

inline constexpr std::uint8_t kInUse = 1;     ///< the sender holds a connection
inline constexpr std::uint8_t kAnswerMe = 2;  ///< alive: please send one too
inline constexpr std::uint8_t kStale = 4;     ///< wrote: not all was placed, the grant was too old
/// read: the answer may have a trailer. Data: it has one, behind its payload.
inline constexpr std::uint8_t kTrailer = 2;

// read: the device of the asker's in a room of which the answer may arrive, and one; 0: in none.
inline constexpr unsigned kIntoShift = 3;
inline constexpr unsigned kMostInto = 0xff >> kIntoShift;
constexpr std::uint8_t into_flags(unsigned device) noexcept {
  return device < kMostInto ? static_cast<std::uint8_t>((device + 1) << kIntoShift) : 0;
}
constexpr std::optional<unsigned> into_of(std::uint8_t flags) noexcept {
  const unsigned device = flags >> kIntoShift;
  return device == 0 ? std::nullopt : std::optional(device - 1);
}

struct FrameHeader {
  FrameKind kind = FrameKind::alive;
  std::uint8_t flags = 0;
  std::uint16_t count = 0;
  std::uint64_t session = 0;
  std::uint64_t stamp = 0;
  std::uint64_t echo = 0;
  std::uint64_t id = 0;
};

/// Equal extents of one registration of the receiver.
struct Piece {
  std::uint64_t token = 0;  ///< which registration
  std::uint64_t address = 0;
  std::uint64_t stride = 0;  ///< ignored when count is 1
  std::uint32_t length = 0;  ///< at least 1
  std::uint32_t count = 1;   ///< at least 1

  std::uint64_t bytes() const noexcept { return std::uint64_t{length} * count; }
};

/// A piece that was not moved, and why.
struct Refusal {
  std::uint16_t piece = 0;
  Code code = Code::not_found;
};

inline constexpr std::size_t kHeaderBytes = 40;
inline constexpr std::size_t kPieceBytes = 32;
inline constexpr std::size_t kRefusalBytes = 4;
inline constexpr std::size_t kMaxPieces = 256;
inline constexpr std::size_t kMaxHeadBytes =
    kHeaderBytes + kMaxPieces * kPieceBytes + net::kSealBytes;
inline constexpr std::uint64_t kPayloadBytes = 512 * 1024;
inline constexpr std::uint64_t kMaxNoteBytes = 64 * 1024;
/// A bit for each piece, lowest first: it could not be read after all, and other bytes came for it.
using Trailer = std::array<std::byte, kMaxPieces / 8>;
inline constexpr std::uint64_t kMaxBodyBytes = kPayloadBytes + sizeof(Trailer);
/// The longest frame.
inline constexpr std::size_t kFrameBytes = kMaxHeadBytes + kMaxBodyBytes;

inline bool names(const Trailer& trailer, std::size_t piece) noexcept {
  return (trailer[piece / 8] & std::byte{1} << piece % 8) != std::byte{};
}
inline void name_in(Trailer& trailer, std::size_t piece) noexcept {
  trailer[piece / 8] |= std::byte{1} << piece % 8;
}

/// A frame that was received; borrows its head.
struct Frame {
  FrameHeader header;
  ConstByteSpan records;
  std::uint64_t payload_bytes = 0;  ///< without its trailer

  bool has_trailer() const noexcept {
    return header.kind == FrameKind::data && (header.flags & kTrailer) != 0;
  }

  /// i < header.count, of a write or read.
  Piece piece(std::size_t i) const noexcept;
  /// i < header.count, of a wrote or data.
  Refusal refusal(std::size_t i) const noexcept;
  /// Of a note.
  net::Mac::Proof payload_proof() const noexcept;
};

constexpr bool is_sealed(FrameKind kind) noexcept { return kind != FrameKind::hello; }
/// Of a frame that was written.
inline ByteSpan head_of(net::MessageBuffer& buffer) noexcept {
  return buffer.room().first(buffer.size - buffer.body_bytes);
}

/// Of a message's head, and how long its body is; whether the seal fits is the session's to say.
/// Errors: corrupt, unsupported (another version).
Result<Frame> decode_frame(ConstByteSpan head, std::uint64_t body_bytes);

/// Writes one frame into a buffer that holds kFrameBytes: records first, then what of the payload
/// does not leave from elsewhere. The seal has its place between them, and is empty.
class FrameWriter {
 public:
  FrameWriter(net::MessageBuffer& buffer, const FrameHeader& header) noexcept
      : buffer_(buffer), room_(buffer.room()), header_(header) {}

  void add(const Piece& piece) noexcept;
  void add(const Refusal& refusal) noexcept;
  void add(const net::Mac::Proof& payload_proof) noexcept;
  void append(ConstByteSpan bytes) noexcept;
  /// The same for bytes that the caller puts there.
  ByteSpan append_room(std::size_t bytes) noexcept;
  void flag(std::uint8_t flags) noexcept { header_.flags |= flags; }
  std::uint16_t count() const noexcept { return header_.count; }
  /// The last call: the buffer is filled.
  void finish() noexcept;

 private:
  void end_head() noexcept;

  net::MessageBuffer& buffer_;
  const ByteSpan room_;
  FrameHeader header_;
  std::size_t size_ = kHeaderBytes;
  std::size_t payload_bytes_ = 0;
  bool has_ended_head_ = false;
};

}  // namespace towpath::backends::messages
