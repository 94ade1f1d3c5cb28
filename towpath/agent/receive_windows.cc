#include <algorithm>

#include <towpath/agent/receive_windows.h>

namespace towpath::agent {

ReceiveWindow& ReceiveWindows::of(const AgentIdentity& sender) {
  const auto [found, is_new] = entries_.try_emplace(sender, Entry{{}, unauthenticated_.end()});
  Entry& entry = found->second;
  if (is_new) {
    add_unauthenticated(sender, entry);
  } else if (entry.turn != unauthenticated_.end()) {
    unauthenticated_.splice(unauthenticated_.end(), unauthenticated_, entry.turn);
  }
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
    add_unauthenticated(sender, found->second);
  }
}

void ReceiveWindows::add_unauthenticated(const AgentIdentity& sender, Entry& entry) {
  entry.turn = unauthenticated_.insert(unauthenticated_.end(), sender);
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
