// Sessions: how the sessions of an engine come up, on both sides, and what keeps them up.
//
//   dial()   --> Session, the caller's     its answer: Session::prove(), confirm()
//   accept() --> half open, kept here      its confirmation: take_confirmation(), release()
//   turn()   --> at times, that each       be checked: check_silence(), is_silent_side()
//
// A session that a peer began is half open until its confirmation: with bounds in number and time,
// and nothing of it is anybody else's. Handshakes travel in frames of the engine's, as its `wrap`
// writes them.
//
// Invariants: a message that proves nothing changes nothing but the count of those that were
// refused, since anybody may send one in a peer's name. What came over an endpoint never destroys
// it: that is for turn(). Thread: as the worker.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <towpath/net/session/session.h>
#include <towpath/telemetry/log.h>
#include <towpath/telemetry/metrics.h>

namespace towpath::net {

struct SessionOptions {
  /// A message of a handshake in a frame of the engine's, in an empty buffer.
  using Wrap = void (*)(MessageBuffer& into, const SessionNumbers& numbers,
                        ConstByteSpan handshake);
  Wrap wrap = nullptr;
  /// Messages go both ways over a connection, in order. Else each side reaches the other by itself.
  bool has_connections = false;
  std::size_t most_half_open = 1024;
  std::size_t most_half_open_of_one = 1;  ///< of one SessionNumbers::theirs
  Duration every;                         ///< how often each session is checked
  Duration speaks_after;  ///< a side that has sent nothing for so long says something
  Duration timeout;       ///< a side that was not heard for so long is lost
};

/// To whom, and how.
struct SessionPath {
  SessionPeer peer;
  SessionNumbers numbers;
  ConstByteSpan address;         ///< of its worker; not needed to answer over a connection
  std::uint64_t connection = 0;  ///< over which a hello came (net::Message::from)
  SessionLabel label{};
};

class Sessions {
 public:
  /// `worker` and `clock` outlive them. `refused`: counts messages that proved nothing; null:
  /// nobody does.
  Sessions(MessageWorker& worker, const Clock& clock, const SessionOptions& options,
           telemetry::Log log, telemetry::Counter* refused = nullptr);

  // ---- The side that dials

  /// Greets. Set its owner before the next turn. Errors: those of DialHandshake::begin() and
  /// MessageWorker::connect().
  Result<std::unique_ptr<Session>> dial(const SessionTerms& terms, const SessionParty& self,
                                        const SessionPath& path);
  /// The answer that came over `connection` was proven, and says `their_number`: the
  /// session is proven, and up over a connection. After an error it is dialling as before. Errors:
  /// the endpoint's; peer_lost (no memory).
  Status confirm(Session& session, const DialHandshake::Outcome& outcome,
                 std::uint64_t their_number, std::uint64_t connection);

  // ---- The side that is dialled

  /// Answers a hello that holds, whose sender the engine takes for the peer of `path`: half open.
  /// Errors: exhausted (too many are, in all or of this one, and none goes for it: leave_room()),
  /// the worker's.
  Status accept(AcceptHandshake handshake, const SessionPath& path);
  /// The half-open session whose confirmation this is: up, and kept here until the end of the turn.
  /// Errors: not_found (none waits for one, over this connection), denied, unsupported, corrupt.
  Result<Session*> take_confirmation(const SessionNumbers& numbers, std::uint64_t connection,
                                     ConstByteSpan confirmation);
  /// What was taken is the caller's from now on, and no other of this peer's is half open.
  std::unique_ptr<Session> release(Session& session) noexcept;
  std::size_t half_open() const noexcept { return half_open_.size(); }

  // ---- While they last

  /// To be called by on_broken(): a session with an owner has its broken() now, others are seen to.
  Session& note_broken(void* endpoint_owner, const Status& why);
  /// What to end a session with of which something does not prove itself any more. Counts it.
  Status distrust(const Session& session, const Status& why);
  /// Of a session for whose message there is none: peer_lost.
  const Status& no_memory() const noexcept { return no_memory_; }
  /// Counts and logs a message that proved nothing.
  void refuse(std::string_view whom, const Status& why);

  /// The end of a turn, outside of the carrier. True, once in every `every`: each session should
  /// be checked, by check_silence() and is_silent_side().
  bool turn(Instant now) {
    const Duration away = now - std::exchange(last_turn_, now);
    if (now < next_check_ && !has_over_) return false;
    return check_half_open(now, away);
  }
  /// Ok, or why the peer is to be given up: peer_lost.
  Status check_silence(Session& session, Instant now) const;
  /// Whether this side should say something, so that it is not given up.
  bool is_silent_side(const Session& session, Instant now) const {
    return session.is_up() && now - session.sent_at() >= options_.speaks_after &&
           session.unsent() == 0;
  }
  Instant next_check() const noexcept { return next_check_; }
  Instant last_turn() const noexcept { return last_turn_; }

 private:
  using HalfOpen = std::unordered_multimap<std::uint64_t, std::unique_ptr<Session>>;

  std::unique_ptr<Session> make(const SessionPath& path) const;
  std::unique_ptr<MessageBuffer> frame_of(const Session& session, ConstByteSpan handshake);
  void take_keys(Session& session, const SessionKeys& keys, std::uint64_t connection);
  Status answer(Session& session, const SessionPath& path);
  bool leave_room(HalfOpen::iterator begin, HalfOpen::iterator end, std::size_t most);
  bool check_half_open(Instant now, Duration away);
  void give_up(Session& session) noexcept { session.is_over_ = has_over_ = true; }

  MessageWorker& worker_;
  const Clock& clock_;
  const SessionOptions options_;
  const telemetry::Log log_;
  telemetry::Counter* const refused_;
  const Status no_memory_ = error(Code::peer_lost, "no memory was left for its messages");
  HalfOpen half_open_;     // by the peer's number
  bool has_over_ = false;  // some of them are
  Instant next_check_, last_turn_;
  bool was_away_ = false;
};

}  // namespace towpath::net
