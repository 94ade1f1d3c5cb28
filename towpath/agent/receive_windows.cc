#include <algorithm>
#include <utility>

#include <towpath/agent/receive_windows.h>

namespace towpath::agent {

ReceiveWindow& ReceiveWindows::of(const AgentIdentity& sender) {
  const auto found = entries_.find(sender);
  if (found == entries_.end()) {
    Order turn{sender};  // first: what throws leaves no entry that would count as a peer's
    Entry& entry = entries_.try_emplace(sender, Entry{{}, turn.begin()}).first->second;
    add_unauthenticated(std::move(turn), entry);
    return entry.window;
  }
  Entry& entry = found->second;
  if (entry.turn != unauthenticated_.end())
    unauthenticated_.splice(unauthenticated_.end(), unauthenticated_, entry.turn);
  return entry.window;
}

void ReceiveWindows::keep(const AgentIdentity& sender) {
  Entry& entry = entries_.try_emplace(sender, Entry{{}, unauthenticated_.end()}).first->second;
  if (entry.turn != unauthenticated_.end()) unauthenticated_.erase(entry.turn);
  entry.turn = unauthenticated_.end();
}

void ReceiveWindows::forget(const AgentIdentity& sender) {
  const auto found = entries_.find(sender);
  if (found == entries_.end() || found->second.turn != unauthenticated_.end()) return;
  if (found->second.window.stream() == 0) {  // nothing was ever heard
    entries_.erase(found);
  } else {
    add_unauthenticated({sender}, found->second);
  }
}

void ReceiveWindows::add_unauthenticated(Order turn, Entry& entry) noexcept {
  entry.turn = turn.begin();
  unauthenticated_.splice(unauthenticated_.end(), turn);
  if (unauthenticated_.size() <= max_unauthenticated_) return;
  entries_.erase(unauthenticated_.front());
  unauthenticated_.pop_front();
}

bool ReceiveWindows::may_collect(const AgentIdentity& sender) const {
  const auto found = entries_.find(sender);
  if (found != entries_.end() && found->second.turn == unauthenticated_.end()) return true;
  const auto is_collecting = [&](const AgentIdentity& unauthenticated) {
    return entries_.at(unauthenticated).window.is_collecting();
  };
  return std::ranges::count_if(unauthenticated_, is_collecting) < kMaxCollectingUnauthenticated;
}

}  // namespace towpath::agent
