// TcpLoop: tells those who have sockets what the kernel says of them. Only files of this folder
// include it. Thread: one at a time.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>

#include <towpath/run/poller.h>

namespace towpath::net {

class TcpSocketOwner {
 public:
  virtual ~TcpSocketOwner() = default;
  /// Of the socket that was added under this tag. It may add and remove any.
  virtual void on_event(const run::PollEvent& event) = 0;
};

class TcpLoop {
 public:
  explicit TcpLoop(run::Poller poller) noexcept : poller_(std::move(poller)) {}

  /// The socket's tag, never 0. Errors: exhausted.
  Result<std::uint64_t> add(int fd, TcpSocketOwner& owner) {
    TOWPATH_TRY(poller_.add(fd, next_tag_));
    owners_.emplace(next_tag_, &owner);
    return next_tag_++;
  }
  void want_writable(int fd, std::uint64_t tag, bool wanted) {
    (void)poller_.modify(fd, tag, {.writable = wanted});
  }
  /// Before the socket is closed. Harmless for a tag of 0.
  void remove(int fd, std::uint64_t tag) {
    if (owners_.erase(tag) > 0) (void)poller_.remove(fd);
  }

  /// False: nothing has happened.
  bool turn() {
    const auto events = poller_.wait(Duration::zero());
    for (const run::PollEvent& event : events) {
      // One before may have ended it.
      if (const auto found = owners_.find(event.tag); found != owners_.end())
        found->second->on_event(event);
    }
    return !events.empty();
  }
  int fd() const noexcept { return poller_.fd(); }

 private:
  run::Poller poller_;
  std::unordered_map<std::uint64_t, TcpSocketOwner*> owners_;
  std::uint64_t next_tag_ = 1;
};

}  // namespace towpath::net
