// The two ends of a notification channel between two agents: numbers on one side, order on the
// other.
//
// Over a reliable backend the numbers only prove that nothing went missing. Over a lossy one the
// sender keeps what is not acknowledged and repeats it; the receiver accepts the next number only,
// drops what it has seen or what came too early, and acknowledges what it has. Each message is thus
// delivered once, in order, whatever the network drops, repeats, reorders or tears.
//
// A message that is longer than what the backend carries at once travels in pieces, each with a
// number of its own; the receiver delivers it when it has the last one.
//
// A sender that loses its peer and meets it again begins a new stream, with numbers from 1; the
// receiver forgets the old one when the first message of the new one comes.
// Pure: no clock, no I/O; the agent sends what these ends say.
// Thread: none of its own.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include <towpath/core/bytes.h>
#include <towpath/core/clock.h>
#include <towpath/core/result.h>
#include <towpath/wire/envelope.h>

namespace towpath::agent {

/// What travels as a backend's notification: the payload of a wire::seal()ed message, whose
/// checksum finds a torn one.
///
///   | kind u8 | zero u8 x3 | stream u32 le | number u64 le | payload ... |
struct Envelope {
  enum class Kind : std::uint8_t {
    message = 1,  ///< or the last piece of one
    acknowledgement = 2,
    piece = 3,  ///< the next number goes on with it
  };
  Kind kind = Kind::message;
  std::uint32_t stream = 0;
  std::uint64_t number = 0;  ///< of the message; acknowledgement: of the last one that arrived
  ConstByteSpan payload;
};

inline constexpr std::size_t kEnvelopeBytes = wire::kHeaderBytes + 16;
/// Of one message, in as many pieces as it takes.
inline constexpr std::size_t kMaxMessageBytes = std::size_t{16} << 20U;

Bytes encode(const Envelope& envelope);
/// The payload borrows from `bytes`. Errors: corrupt, or those of wire::open().
Result<Envelope> decode_envelope(ConstByteSpan bytes);

class SendWindow {
 public:
  struct Limits {
    /// Of what waits, each piece with kPieceCost besides. One message fits an empty window always.
    std::size_t bytes = std::size_t{64} << 20U;
  };
  static constexpr std::size_t kPieceCost = 64;
  struct Mode {
    bool lossy = false;                  ///< keep messages until they are acknowledged
    std::uint32_t stream = 1;            ///< higher than of any earlier window to the same receiver
    std::size_t piece_bytes = SIZE_MAX;  ///< of a payload that travels at once; not 0
  };
  SendWindow(Mode mode, Limits limits) : mode_(mode), limits_(limits) {}

  /// Takes a message and gives it the next number; where memory runs out (std::bad_alloc), nothing
  /// has changed. Errors: exhausted.
  Status push(ConstByteSpan payload);
  /// Keeps room for a message that will be known later: a transfer's, sent when its bytes are in
  /// place. Each ends in one push_reserved() or one release(). Errors: exhausted.
  Status reserve(std::size_t payload_bytes);
  /// Takes the message that room was kept for; `payload` has as many bytes. Where memory runs out
  /// (std::bad_alloc) the room is kept still.
  void push_reserved(ConstByteSpan payload);
  /// Gives the room back: there is no message.
  void release(std::size_t payload_bytes) noexcept;

  /// Encodes a message to be handed over at once, where nothing waits and it travels in one piece;
  /// the backend may have no room for it: push() it then. False: push() it anyway.
  bool encode_at_once(ConstByteSpan payload, Bytes& into) const;
  /// The backend took it.
  void sent_at_once() noexcept { first_number_ = ++next_number_; }

  /// The next encoded message to hand to the backend, or null. `now` starts its timer.
  const Bytes* next();
  /// The backend took it.
  void sent(Instant now);
  /// The other side has everything of `acknowledgement.stream` up to its number.
  void acknowledged(const Envelope& acknowledgement);
  /// Repeats what is in flight, when the oldest of it has waited for longer than `timeout`.
  void repeat_overdue(Instant now, Duration timeout);

  bool empty() const noexcept { return queue_.empty(); }
  /// Messages that were not handed over, or not acknowledged where that is needed.
  std::size_t size() const noexcept { return messages_; }
  /// In which they travel.
  std::size_t pieces() const noexcept { return queue_.size(); }
  /// When repeat_overdue() may next have something to do.
  Instant next_repeat(Duration timeout) const noexcept;

 private:
  /// One piece of a message.
  struct Piece {
    Bytes bytes;  // encoded
    bool is_last = false;
    Instant sent_at;  // when it is in flight
  };

  std::size_t cost_of(std::size_t payload_bytes) const noexcept;
  Status check_room(std::size_t payload_bytes) const;
  void append(ConstByteSpan payload);
  void drop_up_to(std::uint64_t number);

  const Mode mode_;
  const Limits limits_;
  std::uint64_t next_number_ = 1;
  std::uint64_t first_number_ = 1;  // of queue_.front()
  std::size_t in_flight_ = 0;       // this many of the front were sent
  std::size_t messages_ = 0;        // of queue_
  std::size_t bytes_ = 0;           // cost of all: queued ones and reserved ones
  std::size_t reserved_ = 0;        // messages
  std::deque<Piece> queue_;
};

class ReceiveWindow {
 public:
  enum class Verdict { deliver, seen_before, too_early };

  ReceiveWindow() = default;

  Verdict judge(const Envelope& message) noexcept {
    if (message.stream > stream_) *this = ReceiveWindow(message.stream);
    if (message.stream < stream_ || message.number <= last_) return Verdict::seen_before;
    return message.number == last_ + 1 ? Verdict::deliver : Verdict::too_early;
  }
  void delivered() noexcept { ++last_; }
  /// A reliable channel lost messages: go on behind the gap.
  void skip_to(std::uint64_t number) noexcept {
    last_ = number - 1;
    collected_ = {};
  }

  /// Keeps a piece. False: the message is too long, or is refused already.
  bool collect(ConstByteSpan piece);
  /// The message that ends with this piece; borrows from it or from this. Nothing: it is dropped.
  std::optional<ConstByteSpan> finish(ConstByteSpan last_piece);
  /// Of a message that finish() gave: it was delivered, or its last piece will come again.
  void settle(bool was_delivered, std::size_t last_piece_bytes);
  /// Drops what was collected of a message, and what is still to come of it.
  void refuse_message() noexcept;
  bool is_collecting() const noexcept { return !collected_.empty(); }
  std::uint64_t last() const noexcept { return last_; }
  std::uint32_t stream() const noexcept { return stream_; }

 private:
  explicit ReceiveWindow(std::uint32_t stream) noexcept : stream_(stream) {}

  std::uint32_t stream_ = 0;
  std::uint64_t last_ = 0;
  Bytes collected_;           // pieces of a message that has not ended
  bool is_refusing_ = false;  // until it ends
};

}  // namespace towpath::agent
