// IoRing: a Ring for a user who never has more than `depth` I/Os in it and wants never to be
// refused one.
//
// Cancellations take places of their own, so the ring may be full all the same; then what comes
// waits here until the next flush(). `Io` is what the user calls one: a small value, said to the
// ring by the function that open() was given.
// Invariant: I/Os reach the kernel in the order of submit(). Thread: as Ring.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <towpath/sys/uring.h>

namespace towpath::sys {

namespace internal {
/// With room for a few cancellations of each I/O. Errors: as Ring::open.
Result<Ring> open_for_depth(std::uint32_t depth, RingOptions options);
void clear_event(int event_fd) noexcept;
bool raise_event(int event_fd) noexcept;
}  // namespace internal

template <typename Io>
class IoRing {
 public:
  /// Prepares one. Errors: exhausted (the ring is full now).
  using Prepare = Status (*)(Ring& ring, const Io& io);

  /// Of `options` the numbers of entries are set here. Errors: as Ring::open.
  static Result<IoRing> open(std::uint32_t depth, Prepare prepare,
                             const RingOptions& options = {}) {
    TOWPATH_TRY(Ring ring, internal::open_for_depth(depth, options));
    TOWPATH_TRY(const int event_fd, ring.event_fd());
    return IoRing(std::move(ring), event_fd, depth, prepare);
  }

  /// For registering buffers and files.
  Ring& ring() noexcept { return ring_; }

  /// What `io` points to stays until it comes back from reap(). No system call.
  void submit(const Io& io) {
    if (!backlog_.empty() || !prepare_(ring_, io).ok()) backlog_.push_back(io);
  }
  /// One system call; a second one when something had waited. True: nothing is left behind.
  bool flush() {
    if (!ring_.submit().ok()) return false;
    if (backlog_.empty()) return true;
    // One by one: a refusal allocates, and what the ring has must not be handed in again.
    while (!backlog_.empty() && prepare_(ring_, backlog_.front()).ok())
      backlog_.erase(backlog_.begin());
    return ring_.submit().ok() && backlog_.empty();
  }
  /// Asks for an early end of what has this id.
  void cancel(std::uint64_t id) {
    // Refused only when the kernel is short of memory; then the I/O ends by itself.
    (void)ring_.cancel(id);
  }
  /// Fills a prefix of `into` with {id, result} of what has ended. No system call.
  template <typename Done>
  std::size_t reap(std::span<Done> into) {
    std::array<Completion, 64> batch;
    const std::size_t count =
        ring_.poll(std::span(batch).first(std::min(into.size(), batch.size())));
    for (std::size_t i = 0; i < count; ++i) into[i] = {batch[i].id, batch[i].result};
    return count;
  }

  /// Readable when reap() finds something, until clear_wait_fd(). Lives with the ring.
  int wait_fd() const noexcept { return event_fd_; }
  void clear_wait_fd() noexcept { internal::clear_event(event_fd_); }
  /// Readable until clear_wait_fd(), whatever has ended. False: refused, which only a full count
  /// is.
  bool raise_wait_fd() noexcept { return internal::raise_event(event_fd_); }

 private:
  IoRing(Ring ring, int event_fd, std::uint32_t depth, Prepare prepare)
      : ring_(std::move(ring)), event_fd_(event_fd), prepare_(prepare) {
    backlog_.reserve(depth);
  }

  Ring ring_;
  int event_fd_;
  Prepare prepare_;
  std::vector<Io> backlog_;  // found the ring full of cancellations; at most depth
};

}  // namespace towpath::sys
