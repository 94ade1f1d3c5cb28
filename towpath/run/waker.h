// Waker: makes a poller in another thread return (an eventfd).
//
// Waking an already woken one costs one atomic exchange and no system call, so producers may wake
// after every push. The one who sleeps calls clear() first and looks for work afterwards: then no
// work is missed.
// Thread: wake() any; clear() the one that sleeps.
#pragma once

#include <atomic>
#include <memory>

#include <towpath/core/result.h>
#include <towpath/sys/fd.h>

namespace towpath::run {

class Waker {
 public:
  /// Errors: exhausted (no descriptor is free).
  static Result<std::unique_ptr<Waker>> open();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

  void wake() noexcept;
  /// Forgets the wake-ups so far. What was published before them is visible afterwards. A wake()
  /// that is still going on may be left for the next call. Cost: no system call when not woken.
  void clear() noexcept;
  bool is_pending() const noexcept { return pending_.load(std::memory_order_relaxed); }

  /// Readable while woken. For a poller; do not read it.
  int fd() const noexcept { return fd_.get(); }

 private:
  explicit Waker(sys::Fd fd) noexcept : fd_(std::move(fd)) {}

  sys::Fd fd_;
  std::atomic<bool> pending_{false};
};

}  // namespace towpath::run
