#include <algorithm>

#include <towpath/agent/receive_windows.h>

namespace towpath::agent {

ReceiveWindow& ReceiveWindows::of(const AgentIdentity& sender) {
  const auto [found, is_new] = entries_.try_emplace(sender, Entry{{}, strangers_.end()});
  Entry& entry = found->second;
  if (is_new) {
    add_stranger(sender, entry);
  } else if (entry.turn != strangers_.end()) {
    strangers_.splice(strangers_.end(), strangers_, entry.turn);
  }
  return entry.window;
}

void ReceiveWindows::keep(const AgentIdentity& sender) {
  Entry& entry = entries_.try_emplace(sender, Entry{{}, strangers_.end()}).first->second;
  if (entry.turn != strangers_.end()) strangers_.erase(entry.turn);
  entry.turn = strangers_.end();
}

void ReceiveWindows::forget(const AgentIdentity& sender) {
  const auto found = entries_.find(sender);
  if (found == entries_.end() || found->second.turn != strangers_.end()) return;
  if (found->second.window.stream() == 0) {  // nothing was ever heard
    entries_.erase(found);
  } else {
    add_stranger(sender, found->second);
  }
}

void ReceiveWindows::add_stranger(const AgentIdentity& sender, Entry& entry) {
  entry.turn = strangers_.insert(strangers_.end(), sender);
  if (strangers_.size() <= max_strangers_) return;
  entries_.erase(strangers_.front());
  strangers_.pop_front();
}

bool ReceiveWindows::may_collect(const AgentIdentity& sender) const {
  const auto found = entries_.find(sender);
  if (found != entries_.end() && found->second.turn == strangers_.end()) return true;
  const auto is_collecting = [&](const AgentIdentity& stranger) {
    return entries_.at(stranger).window.is_collecting();
  };
  return std::ranges::count_if(strangers_, is_collecting) < kMaxCollectingStrangers;
}

}  // namespace towpath::agent
