// What is behind a Ring. Only for the uring_*.cc files: liburing shows here.
// Thread: as Ring.
#pragma once

#include <liburing.h>

#include <towpath/sys/fd.h>
#include <towpath/sys/uring.h>

namespace towpath::sys::internal {

/// The id of the ring's own operations (cancellations); poll() hides them.
inline constexpr std::uint64_t kOwnId = UINT64_MAX;

struct RingState {
  io_uring ring{};
  RingOptions options;
  bool set_up = false;
  unsigned depth = 0;
  unsigned in_flight = 0;      ///< the caller's operations accepted and not yet polled
  unsigned own_in_flight = 0;  ///< the same for kOwnId
  Fd own_event;
  int event_fd = -1;  ///< registered

  RingState() = default;
  RingState(const RingState&) = delete;
  RingState& operator=(const RingState&) = delete;
  ~RingState() {
    if (set_up) io_uring_queue_exit(&ring);
  }

  /// A cleared submission, or null when the queue is full. Always cleared whole: a slot still holds
  /// flags and indices of whatever used it before.
  io_uring_sqe* next_slot() noexcept;
  /// Asks to cancel `id`, or everything. Counts as the ring's own.
  Status request_cancel(std::uint64_t id, unsigned flags);
  /// Submits until nothing is left or the kernel refuses.
  Result<unsigned> submit();
  /// -errno of a wait as a Status.
  Status wait(const RingWait& until, bool submit_first);
  std::size_t poll(std::span<Completion> into) noexcept;
  /// Takes back what the kernel does not know yet.
  void withdraw_unsubmitted(std::vector<Completion>& into);
};

}  // namespace towpath::sys::internal
