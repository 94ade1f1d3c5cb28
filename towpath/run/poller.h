// Poller: waits for many descriptors at once (epoll).
//
// Level-triggered: what is not dealt with is reported again. A poller's own fd() is readable while
// it has events, so pollers nest: an agent's wait_fd() is one of these. Invariants: it owns no
// descriptor but its own; remove one before closing it. Thread: add, modify, remove any; wait() one
// at a time; wait_beside() any.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include <towpath/core/clock.h>
#include <towpath/core/result.h>
#include <towpath/run/waker.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/own_process.h>

namespace towpath::run {

struct Interest {
  bool readable = true;
  bool writable = false;
};

struct PollEvent {
  std::uint64_t tag = 0;  ///< as given to add() or modify()
  bool readable = false;  ///< also at the end of a stream: the next read shows it
  bool writable = false;
  bool broken = false;  ///< hung up or failed; reported whatever the interest
};

class Poller {
 public:
  /// Errors: exhausted (no descriptor is free).
  static Result<Poller> open();

  /// Watches `fd`, which stays the caller's. Errors: already_exists, invalid_argument (a kind that
  /// cannot be watched, such as a file), exhausted (the user's limit of watches).
  Status add(int fd, std::uint64_t tag, Interest interest = {});
  /// Errors: not_found.
  Status modify(int fd, std::uint64_t tag, Interest interest);
  /// Errors: not_found.
  Status remove(int fd);

  /// Up to kMaxEvents of what is ready, after at most `timeout`: zero polls, Duration::max() waits
  /// without end. Empty on a timeout, and when a signal came. Timeouts are rounded up to whole
  /// milliseconds of real time; for finer ones watch a TimerFd. The span lives until the next call.
  std::span<const PollEvent> wait(Duration timeout) noexcept;

  /// Sleeps until an event waits, which stays for wait(), or `waker` is woken; false on a timeout
  /// and when a signal came. Any number of threads may sleep. `timeout` as for wait().
  bool wait_beside(const Waker& waker, Duration timeout) const noexcept;

  int fd() const noexcept { return fd_.get(); }

  static constexpr std::size_t kMaxEvents = 64;

 private:
  explicit Poller(sys::Fd fd) noexcept;
  /// What is watched is shared with forked children. Errors: not_ready (it is the parent's).
  Status check_own() const;

  sys::Fd fd_;
  sys::OwnProcess process_;
  std::array<PollEvent, kMaxEvents> events_{};
};

}  // namespace towpath::run
