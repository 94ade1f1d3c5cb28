// Link: a session and what two backends know of each other over it, and the promise that no byte
// lands late.
//
//   connect() --> [ greeting ] --the session is up--> [ up ] --silence, breakage, bye--> [ lost ]
//   a confirmation that holds (net/session) --------> [ up ]
//
// A link is for what the side that dialled does with the memory of the other, who proved to be the
// instance that the metadata names. If both use each other, there are two.
//
// Grants. Every frame carries its sender's clock, and the newest clock that the sender has heard of
// the receiver. Before an owner places a write it looks at that echo: its own clock, given back.
// Older than `lease`: refused (and asked for again). So a writer that stops caring knows when the
// last of its bytes is dead, even if the owner is stopped, cut off or never heard of again: `lease`
// after it heard the stamp that it used. Only the owner's clock is compared with itself.
//
// Invariant: lost is final; whoever connects again gets a new link with a new session.
// Thread: loop.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include <towpath/backend/backend.h>
#include <towpath/backends/messages/exchange.h>
#include <towpath/backends/messages/frames.h>
#include <towpath/net/session/session.h>

namespace towpath::backends::messages {

struct Timing {
  Duration heartbeat;  ///< a silent side speaks up after this long
  Duration timeout;    ///< a side that is silent for so long is lost
  Duration lease;      ///< how old a grant may be when bytes are placed under it
  /// Until when bytes sent under a grant heard at `at` may land. Clocks of two machines may run
  /// unevenly: by less than one part in 64, and a millisecond.
  Instant dead_after(Instant at) const {
    return at + lease + lease / 64 + std::chrono::milliseconds(1);
  }
};

/// Notifications on their way out, and those that came in and wait for room.
struct Notes {
  std::uint64_t sent = 0;              ///< number of the last one
  std::deque<std::size_t> unanswered;  ///< sizes, the oldest first
  std::size_t unanswered_bytes = 0;
  std::uint64_t arrived = 0;  ///< number of the last one that came in order
  std::uint64_t taken = 0;
  std::uint64_t reported_taken = 0;
  std::deque<Bytes> waiting;                 ///< arrived, not taken
  std::map<std::uint64_t, Bytes> too_early;  ///< order is not promised
  std::size_t held_bytes = 0;                ///< of the two
};

class Link {
 public:
  explicit Link(bool dialled) : is_dialled(dialled) {}
  /// Once, before all else.
  void adopt(std::unique_ptr<net::Session> its_session) noexcept {
    session = std::move(its_session);
    session->owner = this;
  }

  const bool is_dialled;  ///< by this side
  std::unique_ptr<net::Session> session;
  std::vector<backend::Connection*> connections;  ///< none: only the peer uses this link
  bool lost = false;
  bool peer_uses = false;
  Status why;             ///< when lost
  Instant report_before;  ///< though what it said may not have been taken yet
  bool is_loss_reported = false;

  std::uint64_t peer_stamp = 0;  ///< the newest; 0: none
  Instant stamp_heard_at;
  bool asked = false;  ///< for a fresh stamp

  Notes notes;
  Window window;
  bool is_listed = false;  ///< among those that progress() looks at

  const AgentIdentity& peer() const noexcept { return session->peer().agent; }
  const std::string& name() const noexcept { return session->peer().name; }
  bool is_up() const noexcept { return !lost && session->is_up(); }

  /// Whether there is something to send, to hand on or to wait for, but for a sign of life.
  bool is_busy() const {
    return window.is_in_use() || !notes.waiting.empty() || (lost && !is_loss_reported);
  }

  /// A frame of this session; `now` is its stamp.
  FrameHeader header(FrameKind kind, Instant now) const {
    return {.kind = kind,
            .flags = connections.empty() ? std::uint8_t{0} : kInUse,
            .session = session->numbers().ours,
            .stamp = static_cast<std::uint64_t>(now.nanoseconds),
            .echo = peer_stamp};
  }
  void heard(const FrameHeader& header, Instant now) {
    peer_uses = (header.flags & kInUse) != 0;
    if (header.stamp <= peer_stamp) return;
    peer_stamp = header.stamp;
    stamp_heard_at = now;
    asked = false;
  }
  /// Whether what is written now can be expected to be placed.
  bool may_write(Instant now, const Timing& timing) const {
    return peer_stamp != 0 && now - stamp_heard_at < timing.lease / 2;
  }
};

/// Whether an owner whose clock says `now` may place bytes under this grant.
inline bool is_fresh(std::uint64_t echo, Instant now, const Timing& timing) {
  const auto age = static_cast<std::uint64_t>(now.nanoseconds) - echo;
  return echo != 0 && age <= static_cast<std::uint64_t>(timing.lease.count());
}

}  // namespace towpath::backends::messages
