// Inbox: notifications that arrived and were not taken yet, within bounds.
//
// Beyond a bound a backend is asked to hold the message back; once somebody takes what is here, it
// has to be offered again, which take() says.
// Thread: any; its lock is a leaf.
#pragma once

#include <atomic>
#include <vector>

#include <towpath/agent/options.h>
#include <towpath/run/mutex.h>

namespace towpath::agent {

class Inbox {
 public:
  struct Limits {
    std::size_t messages = 0;
    std::size_t bytes = 0;
  };
  explicit Inbox(Limits limits) : limits_(limits) {}

  /// False: full, and the message is to be offered again.
  bool put(const AgentIdentity& from, ConstByteSpan message);
  /// Sequentially consistent, as the store in put(): a waiter announces itself and then asks.
  bool has_some() const noexcept { return has_some_.load(std::memory_order_seq_cst); }
  struct Taken {
    std::vector<Notification> messages;  ///< oldest first
    bool was_full = false;               ///< some were refused meanwhile
  };
  Taken take();

 private:
  const Limits limits_;
  run::Mutex mutex_;
  std::vector<Notification> messages_ TOWPATH_GUARDED_BY(mutex_);
  std::size_t bytes_ TOWPATH_GUARDED_BY(mutex_) = 0;
  bool was_full_ TOWPATH_GUARDED_BY(mutex_) = false;
  std::atomic<bool> has_some_{false};
};

}  // namespace towpath::agent
