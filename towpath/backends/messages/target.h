// Target: the registrations of this side, and what peers may do to them.
//
// Peers do not touch memory: they ask, and the owner moves the bytes inside of its own calls, after
// it has held every range against what is registered at that moment. So a registration that was
// taken back is out of reach at once: what was on its way out is copied first, and no byte lands
// behind the owner's back.
//
// A device's memory goes through a window of pinned memory, and its copies are waited for.
//
// Invariant: between calls nobody reads or writes registered memory. Thread: loop.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <towpath/backends/messages/outbound_frame.h>
#include <towpath/backends/messages/receive_sink.h>
#include <towpath/backends/messages/send_source.h>
#include <towpath/backends/messages/token_table.h>
#include <towpath/core/descriptor.h>

namespace towpath::backends::messages {

/// An answer to a read whose bytes leave from where they lie. It keeps the records of what was
/// read.
class ReadReply final : public SendSource<FramePieceIterator> {
 public:
  void begin(const Frame& read, const PieceSet& refused, sys::GuardedCopy& guard, bool may_fault);
  bool touches(std::uint64_t token) const;

  net::MessageEndpoint* path = nullptr;  ///< over which it leaves

 private:
  std::array<std::byte, kMaxPieces * kPieceBytes> records_;
  Frame read_;
  PieceSet refused_;
};

class Target {
 public:
  /// `guard` outlives it.
  explicit Target(sys::GuardedCopy& guard) noexcept : guard_(guard) {}

  sys::GuardedCopy& guard() const noexcept { return guard_; }
  /// Gives the token by which peers name it: random, so that only those who were notified know it.
  /// `window`: to the device whose memory it is, null for the host's. Both stay where they are
  /// until remove().
  std::uint64_t add(const RegionDescriptor& region, DeviceWindow* window = nullptr);
  void remove(std::uint64_t token);
  /// Null when there is none (any more).
  const RegionDescriptor* find(std::uint64_t token) const;

  /// Whether a peer's piece may be written or read, now.
  PieceVerdict judge(const Piece& piece, sys::GuardedCopy::Direction direction) const;
  /// Writes into `answer` which pieces of a read are refused and appends the bytes of the others.
  /// Or, if the read takes a trailer, which says what of it could not be read then, they leave from
  /// where they lie: then they are what is returned, and the caller sends it at once. Or, all a
  /// device's and with a room free, they are collected for one: `out.room`, to be sealed. Null
  /// `out`: not that.
  ReadReply* gather(const Frame& read, FrameWriter& answer, OutboundFrame* out = nullptr);

 private:
  std::uint64_t next_token();
  void fetch(const Frame& read, DeviceWindow& window, const net::DeviceStagingBuffer* room);
  void fetch_guarded(const Frame& read);
  void append(const Frame& read, const DeviceWindow* window, FrameWriter& answer) const;
  ReadReply& begin_answer(const Frame& read, const PieceSet& refused, bool may_fault);

  TokenTable regions_;
  std::array<std::uint64_t, 128> tokens_{};  // lists are registered, not single regions
  std::size_t tokens_left_ = 0;
  sys::GuardedCopy& guard_;
  std::vector<PieceVerdict> verdicts_;               // of the pieces of one frame
  std::unique_ptr<std::byte[]> fetched_;             // of what may fault; made when first needed
  std::vector<std::unique_ptr<ReadReply>> replies_;  // used again when they have left
};

}  // namespace towpath::backends::messages
