// IoEngine: what brings I/Os to where they go (the kernel, a drive), as far as the caller that
// orders them sees it. How one is handed in is each engine's own affair.
//
// It is not a queue: never more than its depth is in it, so handing in cannot be refused.
// Invariant: every id that was handed in comes back exactly once from reap(), cancelled or not;
// until then the bytes of its I/O may be touched.
// Thread: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace towpath::sys {

struct IoDone {
  std::uint64_t id = 0;
  std::int32_t result = 0;  ///< what it means is the engine's
};

class IoEngine {
 public:
  virtual ~IoEngine() = default;

  /// Starts what was handed in: at most one system call. What is not taken now is kept for the next
  /// flush(). True: nothing is left behind.
  virtual bool flush() = 0;
  /// Asks for an early end. The id comes back as always.
  virtual void cancel(std::uint64_t id) = 0;
  /// Fills a prefix of `into` with what has ended and says how much. Never blocks.
  virtual std::size_t reap(std::span<IoDone> into) = 0;

  /// Readable when reap() finds something, until clear_wait_fd(), not only until it is reaped;
  /// perhaps once more for nothing. -1: ask again at once.
  virtual int wait_fd() const = 0;
  virtual void clear_wait_fd() = 0;
  /// Makes wait_fd() readable, as if something had ended. False: it cannot.
  virtual bool raise_wait_fd() { return false; }
};

}  // namespace towpath::sys
