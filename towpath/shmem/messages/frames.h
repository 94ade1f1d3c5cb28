// What PEs of different hosts say to each other: frames, one per message.
//
//   offset 0     4    5  6    7 8    12  16       24     32     40      48       56
//   +-----------+----+--+----+-+----+---+--------+------+------+-------+--------+---------+------+
//   | "TPS" | 3 |kind|op|word|0|from|aux|sequence|ticket|offset|operand|expected| arrival | seal |
//   +-----------+----+--+----+-+----+---+--------+------+------+-------+--------+---------+------+
//     4 bytes    u8  u8  u8    u32  u32  u64      u64    u64    u64     u64
//
//   from      PE that speaks
//   aux       get: bytes; beat: what the PE is doing; leave_slot: the slot
//   sequence  counts the frames from one PE to another, from 1: UCX does not promise order
//   ticket    of a question, repeated in its answer
//   seal      net/session/seal.h; zeros in a handshake, which has its own proofs
//
// That is the message's head. Its body is what the seal does not cover: bytes of puts and gets, and
// messages of a handshake. Little-endian. docs/formats/shmem_frame.md says more. Thread: immutable.
#pragma once

#include <cstdint>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/net/session/seal.h>
#include <towpath/shmem/remote.h>

namespace towpath::shmem {

enum class FrameKind : std::uint8_t {
  hello = 1,        ///< operand: process
  beat = 2,         ///< aux: a CallKind; operand: of which team
  put = 3,          ///< offset; body: bytes for the heap
  change = 4,       ///< op, word, offset, operand, expected; ticket 0: nobody asks what it was
  get = 5,          ///< ticket, offset, aux; operand: place in the answer
  data = 6,         ///< ticket, operand: place; body: bytes of the heap
  value = 7,        ///< ticket, operand
  applied = 8,      ///< operand: frames up to this sequence have taken place
  arrival = 9,      ///< an ArrivalFrame
  take_slot = 10,   ///< ticket
  leave_slot = 11,  ///< aux: slot; operand: members
  bye = 12,         ///< operand: a PeState
  end_all = 13,     ///< operand: the status that the job shall end with
  handshake = 14,   ///< body: a message of net/session/handshake.h
};

struct FrameHeader {
  FrameKind kind = FrameKind::beat;
  ChangeOp op = ChangeOp::fetch;
  std::uint8_t word_bytes = 0;
  std::uint32_t from = 0;
  std::uint32_t aux = 0;
  std::uint64_t sequence = 0;
  std::uint64_t ticket = 0;
  std::uint64_t offset = 0;
  std::uint64_t operand = 0;
  std::uint64_t expected = 0;
};

inline constexpr std::size_t kFrameHeaderBytes = 56;
/// An arrival with all the blocks that a PE may have released.
inline constexpr std::size_t kMaxArrivalBytes = 65 + (kBlockSlots / 64) * 12;
inline constexpr std::size_t kMaxHeadBytes = kFrameHeaderBytes + kMaxArrivalBytes + net::kSealBytes;
/// Of a body: the longest piece of a put or a get that one frame brings.
inline constexpr std::size_t kMaxFramePayload = 128 * 1024;

/// A frame whose head was received; borrows it.
struct Frame {
  FrameHeader header;
  ConstByteSpan arrival;         ///< of an arrival
  std::uint64_t body_bytes = 0;  ///< that come behind it
};

/// Bytes of a frame's head.
constexpr std::size_t head_bytes(std::size_t arrival_bytes) noexcept {
  return kFrameHeaderBytes + arrival_bytes + net::kSealBytes;
}
/// `head` has head_bytes(arrival.size()), of which the seal's are zeros afterwards.
void encode_head(const FrameHeader& header, ConstByteSpan arrival, ByteSpan head) noexcept;
/// What it says is not proven to be in range, nor who says it. Errors: corrupt, unsupported
/// (another version).
Result<Frame> decode_frame(ConstByteSpan head, std::uint64_t body_bytes);

/// A word of a PE's record that says which blocks it has released.
struct ReleasedWord {
  std::uint32_t index = 0;
  std::uint64_t bits = 0;
};

/// What travels about an arrival: the news, and what its PE has released, if anything.
struct ArrivalFrame {
  ArrivalNews news;
  std::vector<ReleasedWord> released;
  bool reports_released = false;  ///< of allocations; otherwise `released` says nothing
};
Bytes encode(const ArrivalFrame& arrival);
/// Slots, members and words are in range for a job of `pes`. Errors: corrupt.
Result<ArrivalFrame> decode_arrival(ConstByteSpan payload, std::uint32_t pes);

}  // namespace towpath::shmem
