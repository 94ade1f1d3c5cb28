// What PEs of different hosts say to each other: frames, one per UCX message.
//
//   offset 0     4    5  6    7 8   16   20  24       32     40     48      56       64
//   +-----------+----+--+----+-+---+----+---+--------+------+------+-------+--------+---------
//   | "TPS" | 2 |kind|op|word|0|key|from|aux|sequence|ticket|offset|operand|expected| payload
//   +-----------+----+--+----+-+---+----+---+--------+------+------+-------+--------+---------
//     4 bytes    u8  u8  u8     u64 u32  u32  u64      u64    u64    u64     u64
//
//   key       the job's secret number: frames with another one are not heard
//   from      PE that speaks
//   sequence  counts the frames from one PE to another, from 1: UCX does not promise order
//   ticket    of a question, repeated in its answer
//   aux       get: bytes; beat: what the PE is doing; leave_slot: the slot
//
// Little-endian. docs/formats/shmem_frame.md says more. Thread: immutable.
#pragma once

#include <cstdint>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/shmem/remote.h>

namespace towpath::shmem {

enum class FrameKind : std::uint8_t {
  hello = 1,        ///< operand: process
  beat = 2,         ///< aux: a CallKind; operand: of which team
  put = 3,          ///< offset, payload
  change = 4,       ///< op, word, offset, operand, expected; ticket 0: nobody asks what it was
  get = 5,          ///< ticket, offset, aux; operand: place in the answer
  data = 6,         ///< ticket, operand: place, payload
  value = 7,        ///< ticket, operand
  applied = 8,      ///< operand: frames up to this sequence have taken place
  arrival = 9,      ///< payload
  take_slot = 10,   ///< ticket
  leave_slot = 11,  ///< aux: slot; operand: members
  bye = 12,         ///< operand: a PeState
  end_all = 13,     ///< operand: the status that the job shall end with
};

struct FrameHeader {
  FrameKind kind = FrameKind::beat;
  ChangeOp op = ChangeOp::fetch;
  std::uint8_t word_bytes = 0;
  std::uint64_t key = 0;
  std::uint32_t from = 0;
  std::uint32_t aux = 0;
  std::uint64_t sequence = 0;
  std::uint64_t ticket = 0;
  std::uint64_t offset = 0;
  std::uint64_t operand = 0;
  std::uint64_t expected = 0;
};

inline constexpr std::size_t kFrameHeaderBytes = 64;
inline constexpr std::size_t kMaxFramePayload = 128 * 1024;

/// A frame that was received; borrows its bytes.
struct Frame {
  FrameHeader header;
  ConstByteSpan payload;
};

/// `room` has kFrameHeaderBytes.
void encode_header(const FrameHeader& header, ByteSpan room) noexcept;
/// What it says is not proven to be in range. Errors: corrupt.
Result<Frame> decode_frame(ConstByteSpan bytes);

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
