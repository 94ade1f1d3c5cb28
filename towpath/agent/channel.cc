#include <iterator>
#include <vector>

#include <towpath/agent/channel.h>
#include <towpath/core/check.h>
#include <towpath/core/format.h>
#include <towpath/wire/little_endian.h>

namespace towpath::agent {
namespace {

constexpr wire::MessageKind kNotification{wire::MessageType::notification, 1};
constexpr std::size_t kInnerBytes = kEnvelopeBytes - wire::kHeaderBytes;

void encode_into(const Envelope& envelope, Bytes& sealed) {
  sealed.reserve(kEnvelopeBytes + envelope.payload.size());
  sealed.assign(wire::kHeaderBytes + 4, std::byte{0});
  sealed[wire::kHeaderBytes] = static_cast<std::byte>(envelope.kind);
  wire::append(sealed, envelope.stream);
  wire::append(sealed, envelope.number);
  sealed.insert(sealed.end(), envelope.payload.begin(), envelope.payload.end());
  wire::seal_in_place(kNotification, sealed);
}

}  // namespace

Bytes encode(const Envelope& envelope) {
  Bytes sealed;
  encode_into(envelope, sealed);
  return sealed;
}

Result<Envelope> decode_envelope(ConstByteSpan bytes) {
  TOWPATH_TRY(const wire::Message message, wire::open(bytes, {.type = kNotification.type,
                                                              .max_version = kNotification.version,
                                                              .max_payload_bytes = bytes.size()}));
  const ConstByteSpan inner = message.payload;
  if (inner.size() < kInnerBytes)
    return error(Code::corrupt, cat("a notification of ", inner.size(), " bytes has no number"));
  const auto kind = static_cast<Envelope::Kind>(inner[0]);
  const bool is_known = kind == Envelope::Kind::message || kind == Envelope::Kind::piece ||
                        kind == Envelope::Kind::acknowledgement;
  if (!is_known)
    return error(Code::corrupt, cat("a notification of unknown kind ", static_cast<int>(inner[0])));
  if (inner[1] != std::byte{0} || inner[2] != std::byte{0} || inner[3] != std::byte{0})
    return error(Code::corrupt, "a notification with bits of a newer format",
                 "run the same version of Towpath on both sides");
  return Envelope{kind, wire::load<std::uint32_t>(inner.subspan(4)),
                  wire::load<std::uint64_t>(inner.subspan(8)), inner.subspan(kInnerBytes)};
}

std::size_t SendWindow::cost_of(std::size_t payload_bytes) const noexcept {
  const std::size_t full_pieces = payload_bytes == 0 ? 0 : (payload_bytes - 1) / mode_.piece_bytes;
  return payload_bytes + (full_pieces + 1) * kPieceCost;
}

Status SendWindow::check_room(std::size_t payload_bytes) const {
  if (bytes_ == 0 || bytes_ + cost_of(payload_bytes) <= limits_.bytes) return {};
  return error(Code::exhausted,
               cat("notification queue is full: ", messages_, " messages wait, ", reserved_,
                   " more belong to transfers, ", bytes_, " bytes in all, of ", limits_.bytes),
               "make progress, or wait for the peer to take what was sent");
}

Status SendWindow::push(ConstByteSpan payload) {
  TOWPATH_TRY(check_room(payload.size()));
  append(payload);
  bytes_ += cost_of(payload.size());
  return {};
}

Status SendWindow::reserve(std::size_t payload_bytes) {
  TOWPATH_TRY(check_room(payload_bytes));
  ++reserved_;
  bytes_ += cost_of(payload_bytes);
  return {};
}

void SendWindow::push_reserved(ConstByteSpan payload) {
  TOWPATH_CHECK(reserved_ > 0, "a message without room that was kept for it");
  append(payload);
  --reserved_;
}

// All of its pieces, or none.
void SendWindow::append(ConstByteSpan payload) {
  if (payload.size() <= mode_.piece_bytes) {  // as almost all
    queue_.push_back(
        {encode({Envelope::Kind::message, mode_.stream, next_number_, payload}), true});
    ++next_number_;
    ++messages_;
    return;
  }
  std::vector<Piece> pieces;
  std::uint64_t number = next_number_;
  while (payload.size() > mode_.piece_bytes) {
    const ConstByteSpan piece = payload.first(mode_.piece_bytes);
    pieces.push_back({encode({Envelope::Kind::piece, mode_.stream, number++, piece})});
    payload = payload.subspan(piece.size());
  }
  pieces.push_back({encode({Envelope::Kind::message, mode_.stream, number++, payload}), true});
  queue_.insert(queue_.end(), std::move_iterator(pieces.begin()), std::move_iterator(pieces.end()));
  next_number_ = number;
  ++messages_;
}

void SendWindow::release(std::size_t payload_bytes) noexcept {
  TOWPATH_CHECK(reserved_ > 0, "room for a message is given back twice");
  --reserved_;
  bytes_ -= cost_of(payload_bytes);
}

bool SendWindow::encode_at_once(ConstByteSpan payload, Bytes& into) const {
  if (mode_.lossy || !queue_.empty() || payload.size() > mode_.piece_bytes) return false;
  encode_into({Envelope::Kind::message, mode_.stream, next_number_, payload}, into);
  return true;
}

const Bytes* SendWindow::next() {
  return in_flight_ < queue_.size() ? &queue_[in_flight_].bytes : nullptr;
}

void SendWindow::sent(Instant now) {
  queue_[in_flight_].sent_at = now;
  ++in_flight_;
  if (!mode_.lossy) drop_up_to(first_number_);
}

void SendWindow::acknowledged(const Envelope& acknowledgement) {
  if (acknowledgement.stream == mode_.stream) drop_up_to(acknowledgement.number);
}

void SendWindow::drop_up_to(std::uint64_t number) {
  while (in_flight_ > 0 && first_number_ <= number) {
    bytes_ -= queue_.front().bytes.size() - kEnvelopeBytes + kPieceCost;
    if (queue_.front().is_last) --messages_;
    queue_.pop_front();
    ++first_number_;
    --in_flight_;
  }
}

void SendWindow::repeat_overdue(Instant now, Duration timeout) {
  if (now >= next_repeat(timeout)) in_flight_ = 0;
}

Instant SendWindow::next_repeat(Duration timeout) const noexcept {
  return in_flight_ > 0 ? queue_.front().sent_at + timeout : Instant::never();
}

bool ReceiveWindow::collect(ConstByteSpan piece) {
  if (is_refusing_ || piece.size() > kMaxMessageBytes - collected_.size()) return false;
  collected_.insert(collected_.end(), piece.begin(), piece.end());
  return true;
}

std::optional<ConstByteSpan> ReceiveWindow::finish(ConstByteSpan last_piece) {
  if (!is_refusing_ && !is_collecting()) return last_piece;
  if (collect(last_piece)) return collected_;
  collected_ = {};
  is_refusing_ = false;
  return std::nullopt;
}

void ReceiveWindow::settle(bool was_delivered, std::size_t last_piece_bytes) {
  if (was_delivered)
    collected_ = {};
  else if (is_collecting())
    collected_.resize(collected_.size() - last_piece_bytes);
}

void ReceiveWindow::refuse_message() noexcept {
  collected_ = {};
  is_refusing_ = true;
}

}  // namespace towpath::agent
