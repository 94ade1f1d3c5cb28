#include <utility>

#include <towpath/agent/inbox.h>

namespace towpath::agent {

bool Inbox::put(const AgentIdentity& from, ConstByteSpan message) {
  run::MutexLock lock(mutex_);
  // An empty one takes any message, or it would never come.
  const bool has_room = messages_.empty() || (messages_.size() < limits_.messages &&
                                              bytes_ + message.size() <= limits_.bytes);
  if (!has_room) {
    was_full_ = true;
    return false;
  }
  messages_.push_back({from, Bytes(message.begin(), message.end())});
  bytes_ += message.size();
  has_some_.store(true, std::memory_order_seq_cst);
  return true;
}

Inbox::Taken Inbox::take() {
  run::MutexLock lock(mutex_);
  has_some_.store(false, std::memory_order_relaxed);
  bytes_ = 0;
  return {std::exchange(messages_, {}), std::exchange(was_full_, false)};
}

}  // namespace towpath::agent
