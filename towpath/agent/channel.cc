#include <towpath/agent/channel.h>
#include <towpath/core/check.h>
#include <towpath/core/text.h>
#include <towpath/wire/little_endian.h>

namespace towpath::agent {
namespace {

constexpr wire::MessageKind kNotification{wire::MessageType::notification, 1};
constexpr std::size_t kInnerBytes = kEnvelopeBytes - wire::kHeaderBytes;

}  // namespace

Bytes encode(const Envelope& envelope) {
  Bytes inner;
  inner.reserve(kInnerBytes + envelope.payload.size());
  inner.assign(4, std::byte{0});
  inner[0] = static_cast<std::byte>(envelope.kind);
  wire::append(inner, envelope.stream);
  wire::append(inner, envelope.number);
  inner.insert(inner.end(), envelope.payload.begin(), envelope.payload.end());
  return wire::seal(kNotification, inner);
}

Result<Envelope> decode_envelope(ConstByteSpan bytes) {
  TOWPATH_TRY(const wire::Message message, wire::open(bytes, {.type = kNotification.type,
                                                              .max_version = kNotification.version,
                                                              .max_payload_bytes = bytes.size()}));
  const ConstByteSpan inner = message.payload;
  if (inner.size() < kInnerBytes)
    return error(Code::corrupt, cat("a notification of ", inner.size(), " bytes has no number"));
  const auto kind = static_cast<Envelope::Kind>(inner[0]);
  if (kind != Envelope::Kind::message && kind != Envelope::Kind::acknowledgement)
    return error(Code::corrupt, cat("a notification of unknown kind ", static_cast<int>(inner[0])));
  if (inner[1] != std::byte{0} || inner[2] != std::byte{0} || inner[3] != std::byte{0})
    return error(Code::corrupt, "a notification with bits of a newer format",
                 "run the same version of Towpath on both sides");
  return Envelope{kind, wire::load<std::uint32_t>(inner.subspan(4)),
                  wire::load<std::uint64_t>(inner.subspan(8)), inner.subspan(kInnerBytes)};
}

Status SendWindow::check_room(std::size_t payload_bytes) const {
  if (queue_.size() + reserved_ < limits_.messages && payload_bytes <= limits_.bytes - bytes_)
    return {};
  return error(Code::exhausted,
               cat("notification queue is full: ", queue_.size(), " messages wait, ", reserved_,
                   " more belong to transfers, ", bytes_, " bytes in all"),
               "make progress, or wait for the peer to take what was sent");
}

Status SendWindow::push(ConstByteSpan payload) {
  TOWPATH_TRY(reserve(payload.size()));
  push_reserved(payload);
  return {};
}

Status SendWindow::reserve(std::size_t payload_bytes) {
  TOWPATH_TRY(check_room(payload_bytes));
  ++reserved_;
  bytes_ += payload_bytes;
  return {};
}

void SendWindow::push_reserved(ConstByteSpan payload) {
  TOWPATH_CHECK(reserved_ > 0, "a message without room that was kept for it");
  --reserved_;
  queue_.push_back(encode({Envelope::Kind::message, mode_.stream, next_number_++, payload}));
}

void SendWindow::release(std::size_t payload_bytes) noexcept {
  TOWPATH_CHECK(reserved_ > 0, "room for a message is given back twice");
  --reserved_;
  bytes_ -= payload_bytes;
}

const Bytes* SendWindow::next() {
  return in_flight_ < queue_.size() ? &queue_[in_flight_] : nullptr;
}

void SendWindow::sent(Instant now) {
  last_sent_ = now;
  ++in_flight_;
  if (!mode_.lossy) drop_up_to(first_number_);
}

void SendWindow::acknowledged(const Envelope& acknowledgement) {
  if (acknowledgement.stream == mode_.stream) drop_up_to(acknowledgement.number);
}

void SendWindow::drop_up_to(std::uint64_t number) {
  while (in_flight_ > 0 && first_number_ <= number) {
    bytes_ -= queue_.front().size() - kEnvelopeBytes;
    queue_.pop_front();
    ++first_number_;
    --in_flight_;
  }
}

void SendWindow::repeat_overdue(Instant now, Duration patience) {
  if (in_flight_ > 0 && now - last_sent_ >= patience) in_flight_ = 0;
}

Instant SendWindow::next_repeat(Duration patience) const noexcept {
  return in_flight_ > 0 ? last_sent_ + patience : Instant::never();
}

}  // namespace towpath::agent
