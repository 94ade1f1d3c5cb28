// ReceiveWindows: the ReceiveWindow of each sender of one backend, within bounds.
//
// A known peer's is kept as long as the peer is known. Others are kept too, so that a late copy of
// what a forgotten peer sent is not delivered a second time; of these unauthenticated connections
// only the last `max_unauthenticated` to be heard, because senders come and go indefinitely: each
// restart is a new one. (An unauthenticated connection that was let go of and speaks again is taken
// for a new sender. Over a lossy backend it is heard from its next stream on only.) Cost:
// logarithmic. No allocation for a sender that is remembered. Thread: none of its own; guarded by
// its instance's mutex.
#pragma once

#include <cstddef>
#include <list>
#include <map>

#include <towpath/agent/channel.h>
#include <towpath/core/identity.h>

namespace towpath::agent {

class ReceiveWindows {
 public:
  explicit ReceiveWindows(std::size_t max_unauthenticated)
      : max_unauthenticated_(max_unauthenticated) {}

  /// The sender's, a fresh one if there is none. Valid until the next call on this object.
  ReceiveWindow& of(const AgentIdentity& sender);
  /// It is a known peer's from now on.
  void keep(const AgentIdentity& sender);
  /// The peer was forgotten, or replaced: an unauthenticated connection again, if anything was
  /// heard of it.
  void forget(const AgentIdentity& sender);

  /// Whether it may begin a message of several pieces: of unknown senders only so many at a time.
  bool may_collect(const AgentIdentity& sender) const;

  /// Peers and unauthenticated connections.
  std::size_t size() const noexcept { return entries_.size(); }

 private:
  using Order = std::list<AgentIdentity>;
  struct Entry {
    ReceiveWindow window;
    Order::iterator turn;  // among the unauthenticated connections; their end: a peer's
  };

  static constexpr std::ptrdiff_t kMaxCollectingUnauthenticated = 16;

  /// `turn`: the sender of the entry, alone.
  void add_unauthenticated(Order turn, Entry& entry) noexcept;

  const std::size_t max_unauthenticated_;
  std::map<AgentIdentity, Entry> entries_;
  Order unauthenticated_;  // the one that was silent longest first
};

}  // namespace towpath::agent
