// Link: what two backends know of each other, and the promise that no byte lands late. A rail is
// one of its sessions; a link has one, or several over paths of their own.
//
//   connect() --> [ greeting ] --the session is up--> [ up ] --silence, breakage, slow--> [ lost ]
//   a confirmation that holds (net/session) --------> [ up ]                             (a rail)
//
// A link is for what the side that dialled does with the memory of the other, who proved to be the
// instance that the metadata names. If both use each other, there are two. It is lost with the last
// of its rails that is up, and when the peer closes.
//
// Grants. Every frame carries its sender's clock, and the newest clock that the sender has heard of
// the receiver. Before an owner places a write it looks at that echo: its own clock, given back.
// Older than `lease`: refused (and asked for again). So a writer that stops caring knows when the
// last of its bytes is dead, even if the owner is stopped, cut off or never heard of again: `lease`
// after it heard the stamp that it used. Only the owner's clock is compared with itself.
//
// Fences. What a rail that is lost had to do is done again over another. A read at once: nothing of
// the lost session is heard. A write when the owner has answered a fence: it has ended that
// session, and places nothing of it, also not the rest of a frame that had begun; or when the grant
// is over.
//
// Invariant: lost is final, for a rail and for a link; what is dialled again has a new session.
// Thread: loop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <towpath/backend/backend.h>
#include <towpath/backends/messages/connection_info.h>
#include <towpath/backends/messages/exchange.h>
#include <towpath/backends/messages/frames.h>
#include <towpath/backends/messages/pace.h>
#include <towpath/net/session/session.h>

namespace towpath::backends::messages {

struct Timing {
  Duration heartbeat;  ///< a silent side speaks up after this long
  Duration timeout;    ///< a side that is silent for so long is lost
  Duration lease;      ///< how old a grant may be; an owner goes by the writer's if that is shorter
  /// Until when bytes sent under a grant heard at `at` may land. Clocks of two machines may run
  /// unevenly: by less than one part in 64, and a millisecond.
  Instant dead_after(Instant at) const {
    return at + lease + lease / 64 + std::chrono::milliseconds(1);
  }
};

/// Notifications on their way out, and those that came in and wait for room.
struct Notes {
  struct Unanswered {
    std::size_t bytes = 0;
    Bytes text;  ///< of a link whose notifications may have to go again, over another rail
  };
  std::uint64_t sent = 0;             ///< number of the last one
  std::deque<Unanswered> unanswered;  ///< the oldest first
  std::size_t unanswered_bytes = 0;
  std::uint64_t arrived = 0;  ///< number of the last one that came in order
  std::uint64_t taken = 0;
  std::uint64_t reported_taken = 0;
  bool is_asked_again = false;               ///< the answer to what was taken may be lost
  std::deque<Bytes> waiting;                 ///< arrived, not taken
  std::map<std::uint64_t, Bytes> too_early;  ///< order is not promised
  std::size_t held_bytes = 0;                ///< of the two
};

class Link;

class Rail {
 public:
  explicit Rail(Link& its_link) : link(its_link) {}
  /// Once, before all else.
  void adopt(std::unique_ptr<net::Session> its_session) noexcept {
    session = std::move(its_session);
    session->owner = this;
  }

  Link& link;
  std::unique_ptr<net::Session> session;
  bool lost = false;
  Status why;            ///< when lost
  bool is_left = false;  ///< and others do what it had to do

  /// How old a grant may be when bytes that come here are placed under it. Never more than the
  /// writer said: it counts on that.
  Duration lease{};
  std::uint64_t peer_stamp = 0;  ///< the newest; 0: none
  Instant stamp_heard_at;
  bool asked = false;        ///< for a fresh stamp
  bool says_in_use = false;  ///< the newest frame of this side

  Window window;
  // Of a rail that has others beside it:
  Pace pace;
  bool has_carried_notes = false;
  Instant answered_at;   ///< when the last request was
  Duration suspected{};  ///< how long others were answered since then, and it was not

  bool is_up() const noexcept { return !lost && session->is_up(); }

  /// A frame of this session; `now` is its stamp.
  FrameHeader header(FrameKind kind, Instant now);
  void heard(const FrameHeader& header, Instant now);
  /// Whether what is written now can be expected to be placed.
  bool may_write(Instant now, const Timing& timing) const {
    return peer_stamp != 0 && now - stamp_heard_at < timing.lease / 2;
  }
};

/// A slice of an operation that goes again, over another rail than it went.
struct Again {
  MessageOperation* operation = nullptr;
  backend::SegmentCursor begin;
  std::uint64_t bytes = 0;
};

/// By which a rail is dialled, and dialled again.
struct RailPath {
  Bytes address;  ///< as the worker takes it
  std::string name;
  Rail* rail = nullptr;  ///< null: it is dialled when it is due
  Instant due;
  Instant dialled_at;
  Duration pause{};  ///< until the time after
};

class Link {
 public:
  /// `its_number`: of the session of its first rail, the dialler's; by it further ones join.
  Link(bool dialled, net::SessionPeer its_peer, std::uint64_t its_number)
      : is_dialled(dialled), number(its_number), peer_(std::move(its_peer)) {
    rails.push_back(std::make_unique<Rail>(*this));
  }

  const bool is_dialled;  ///< by this side
  const std::uint64_t number;
  std::vector<std::unique_ptr<Rail>> rails;       ///< at least one; lost ones while they are of use
  std::vector<backend::Connection*> connections;  ///< none: only the peer uses this link
  bool lost = false;
  bool peer_uses = false;
  bool is_closed_there = false;  ///< the peer has said bye over a rail, and hears nothing more
  Status why;                    ///< when lost
  bool is_ended = false;         ///< and its transfers are
  Instant report_before;         ///< though what it said may not have been taken yet
  bool is_loss_reported = false;

  backend::SliceLink queue;  ///< operations with more to send, in turn
  std::vector<Again> again;  ///< before them; it has room for the windows of all rails
  Notes notes;
  bool is_listed = false;  ///< among those that progress() looks at

  // Of a link that may have several rails:
  std::unique_ptr<const ConnectionInfo> info;  ///< of the peer; null: it has one rail
  bool has_several = false;     ///< the peer takes them: they are dialled and measured
  std::vector<RailPath> paths;  ///< empty: not yet known
  std::uint64_t unasked = 0;    ///< bytes of operations in the queue
  bool has_moved = false;       ///< the peer may send again what it has sent
  Instant watched_at;

  const net::SessionPeer& known_peer() const noexcept { return peer_; }
  const AgentIdentity& peer() const noexcept { return peer_.agent; }
  const std::string& name() const noexcept { return peer_.name; }
  std::uint64_t instance() const noexcept { return peer_.instance; }

  /// The first rail that is up; null: none is.
  Rail* up() const noexcept {
    for (const auto& rail : rails)
      if (rail->is_up()) return rail.get();
    return nullptr;
  }
  bool is_up() const noexcept { return up() != nullptr; }
  /// Lost, or about to be.
  bool is_over() const noexcept {
    return lost || std::ranges::all_of(rails, [](const auto& rail) { return rail->lost; });
  }
  bool has_more() const noexcept { return queue.is_linked() || !again.empty(); }

  /// Neither side would miss it.
  bool is_unused() const noexcept {
    return connections.empty() && !peer_uses && notes.waiting.empty() && notes.unanswered.empty();
  }
  /// Whether there is something to send, to hand on or to wait for, but for a sign of life.
  bool is_busy() const {
    if (has_more() || !notes.waiting.empty() || (lost && !is_loss_reported)) return true;
    if (notes.is_asked_again && !lost) return true;
    for (const auto& rail : rails)
      if (rail->window.is_in_use()) return true;
    return has_several && paths.empty();
  }

 private:
  const net::SessionPeer peer_;
};

inline FrameHeader Rail::header(FrameKind kind, Instant now) {
  says_in_use = !link.connections.empty();
  return {.kind = kind,
          .flags = says_in_use ? kInUse : std::uint8_t{0},
          .session = session->numbers().ours,
          .stamp = static_cast<std::uint64_t>(now.nanoseconds),
          .echo = peer_stamp};
}

inline void Rail::heard(const FrameHeader& header, Instant now) {
  link.peer_uses = (header.flags & kInUse) != 0;
  if (header.stamp <= peer_stamp) return;
  peer_stamp = header.stamp;
  stamp_heard_at = now;
  asked = false;
}

/// Whether an owner whose clock says `now` may place bytes under this grant.
inline bool is_fresh(std::uint64_t echo, Instant now, Duration lease) {
  const auto age = static_cast<std::uint64_t>(now.nanoseconds) - echo;
  return echo != 0 && age <= static_cast<std::uint64_t>(lease.count());
}

}  // namespace towpath::backends::messages
