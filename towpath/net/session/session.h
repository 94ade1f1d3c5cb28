// Session: one way to a peer, from the greeting to its end: the handshake while it is under way,
// the endpoint, the seals of what is said over it, and when each side spoke last.
//
//   [ awaited ]  the peer is to dial; its session takes this one's place
//   [ dialling ] --answer--------> [ proven ] --first sealed message--> [ up ]
//   [ half open ] --confirmation-> [ up ]
//
// It is up when the peer is known to have the keys too. Over a connection that is so as soon as it
// is proven; where there is none, what is sent behind the confirmation may overtake it.
//
// Sessions (sessions.h) makes them. What their messages say, and whether one that broke is the
// peer's end, is their engine's to know.
// Invariants: before both sides are proven nothing is heard; afterwards only what has the seals of
// this very session. Thread: as its worker.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <towpath/core/clock.h>
#include <towpath/net/messages/message_worker.h>
#include <towpath/net/session/handshake.h>
#include <towpath/net/session/seal.h>

namespace towpath::net {

/// By which the frames of an engine name the two sides: numbers of sessions, or of processes.
struct SessionNumbers {
  std::uint64_t ours = 0;
  std::uint64_t theirs = 0;
};

/// Proven where this side dialled, else as the peer says.
struct SessionPeer {
  AgentIdentity agent;
  std::uint64_t instance = 0;
  std::string name;  ///< as reports name it
};

/// What a dialler's hello says to the engine; unread here.
struct SessionLabel {
  std::uint64_t link = 0;
  Duration lease{};
};

class Session {
 public:
  Session(SessionPeer peer, SessionNumbers numbers, Instant now)
      : peer_(std::move(peer)), numbers_(numbers), heard_at_(now), sent_at_(now) {}

  void* owner = nullptr;  ///< the engine's; null: half open

  const SessionPeer& peer() const noexcept { return peer_; }
  const SessionNumbers& numbers() const noexcept { return numbers_; }
  /// The engine's own, since its handshake began.
  const SessionLabel& label() const noexcept { return label_; }
  bool is_dialling() const noexcept { return std::holds_alternative<DialHandshake>(handshake_); }
  bool is_up() const noexcept { return is_up_; }
  /// What the carrier reported of its endpoint: to be acted on outside of the carrier.
  const Status& broken() const noexcept { return broken_; }

  /// Whether an answer is the peer's, before anything comes of it (Sessions::confirm). Errors:
  /// denied, unsupported (another version), corrupt.
  Result<DialHandshake::Outcome> prove(ConstByteSpan answer) const {
    if (const auto* const dialling = std::get_if<DialHandshake>(&handshake_))
      return dialling->take(answer);
    return error(Code::denied, "an answer that nobody waits for");
  }
  /// Of a message that came over `connection` (net::Message::from): whether it is the peer's.
  /// False: nobody is heard over it. Errors: denied: the seal does not fit, and the session is
  /// over. Cost: no allocation.
  Result<bool> hear(std::uint64_t connection, ConstByteSpan head, Instant now) {
    if (!is_proven_ || connection != connection_) return false;
    if (Status fits = seals_.check(head); !fits.ok()) return fits;
    heard_at_ = now;
    is_up_ = true;
    return true;
  }
  bool proves_body(ConstByteSpan body, const Mac::Proof& proof) const noexcept {
    return seals_.proves_body(body, proof);
  }

  /// For what is sealed before it is sent. What is sealed must leave: the peer counts.
  Sealer& sealer() noexcept { return sealer_; }
  /// Seals the head and hands the message over, as MessageEndpoint::send(), which may not throw
  /// here. Errors: peer_lost (also: no memory was left, and the session is of no use any more),
  /// exhausted.
  Status send(std::unique_ptr<MessageBuffer> buffer, Instant now, BodySource* rest = nullptr,
              std::uint64_t rest_bytes = 0, std::optional<unsigned> into = {}) {
    sent_at_ = now;
    sealer_.seal(buffer->room().first(buffer->size - buffer->body_bytes));
    try {
      return endpoint_->send(std::move(buffer), rest, rest_bytes, into);
    } catch (const std::bad_alloc&) {
      return no_memory_;
    }
  }
  /// The same for a message that is in a room, its head sealed.
  Status send_room(DeviceStagingBuffer& room, std::uint64_t offset, std::uint64_t bytes,
                   std::optional<unsigned> into, Instant now) {
    sent_at_ = now;
    try {
      return endpoint_->send_room(room, offset, bytes, into);
    } catch (const std::bad_alloc&) {
      return no_memory_;
    }
  }

  /// Null: none yet, or none any more.
  MessageEndpoint* endpoint() const noexcept { return endpoint_.get(); }
  /// Messages that were handed over and have not left.
  std::size_t unsent() const noexcept { return endpoint_ == nullptr ? 0 : endpoint_->unsent(); }
  std::uint64_t unsent_bytes() const noexcept {
    return endpoint_ == nullptr ? 0 : endpoint_->unsent_bytes();
  }
  /// MessageEndpoint::host().
  std::string_view host() const noexcept {
    return endpoint_ == nullptr ? std::string_view() : endpoint_->host();
  }
  /// Nothing travels over it any more. Not from inside of the carrier.
  void close() noexcept {
    is_proven_ = is_up_ = false;
    endpoint_.reset();
  }

  Instant heard_at() const noexcept { return heard_at_; }
  Instant sent_at() const noexcept { return sent_at_; }
  /// Its silence until now meant nothing.
  void count_silence_from(Instant now) noexcept { heard_at_ = now; }

 private:
  friend class Sessions;

  const SessionPeer peer_;
  SessionNumbers numbers_;
  SessionLabel label_;
  std::variant<std::monostate, DialHandshake, AcceptHandshake> handshake_;
  std::unique_ptr<MessageEndpoint> endpoint_;
  std::uint64_t connection_ = 0;  ///< over which the peer's messages come, if the carrier has any
  Sealer sealer_;
  SealReader seals_;
  Instant heard_at_, sent_at_;
  Status broken_;
  Status no_memory_;  ///< made while there was some
  bool is_proven_ = false;
  bool is_up_ = false;
  bool is_over_ = false;  ///< half open, and never to be more
};

}  // namespace towpath::net
