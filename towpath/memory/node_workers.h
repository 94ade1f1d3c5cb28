// NodeWorkers: standing threads for each NUMA node, which touch memory before anybody uses it.
//
// Pages get their place when they are touched first, so that is done at once, by several threads on
// the right node, and before a GPU pins them. Pinning memory that was touched by many threads is
// about three times as fast as letting a GPU's driver allocate it, since the driver zeroes pages
// with one thread.
//
// A node's threads start when memory of it is first touched, as many as that memory has use for,
// and stay. Invariants: whoever asks waits no longer than the stated time; memory that the kernel
// is slow to give stays with the threads that wait for it, which unmap it. Thread: any.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <towpath/core/clock.h>
#include <towpath/core/result.h>
#include <towpath/run/mutex.h>
#include <towpath/sys/mapping.h>

namespace towpath::memory {

struct FirstTouch {
  std::optional<unsigned> node;  ///< whose threads touch; nothing: those of no node
  Duration timeout{0};           ///< 0: touch_timeout() of the size
};

struct Touched {
  sys::Mapping memory;
  unsigned threads = 0;  ///< that took part
  std::string note;      ///< why they could not run on the node; empty: they did
};

/// 10 s and 1 s for each GiB, at most 300 s: a busy machine's time, with some to spare.
Duration touch_timeout(std::uint64_t size_bytes) noexcept;

/// Touches every page for writing; no byte changes. Errors: exhausted (no pages are left, on that
/// node if the memory is bound to it).
Status touch_pages(ByteSpan bytes);

class NodeWorkers {
 public:
  struct Options {
    unsigned threads = 0;  ///< per node; 0: its processors, or the machine's, at most 16
    std::string sys = "/sys";
    std::function<Status(ByteSpan)> touch = touch_pages;  ///< for tests
  };

  /// `clock` outlives it. Starts nothing yet.
  explicit NodeWorkers(const Clock& clock) : NodeWorkers(clock, Options{}) {}
  NodeWorkers(const Clock& clock, Options options);
  /// Nobody may be waiting. Waits for extents that the kernel has still to give.
  ~NodeWorkers();

  /// Gives the memory back when all of it was touched. Errors: timed_out (how far it came; the
  /// memory is gone), exhausted (no thread could be started), those of touch_pages().
  Result<Touched> touch(sys::Mapping memory, const FirstTouch& how = {});

 private:
  class Node;
  Node& node_of(std::optional<unsigned> id);

  const Clock& clock_;
  const Options options_;
  run::Mutex mutex_;
  std::map<std::optional<unsigned>, std::unique_ptr<Node>> nodes_ TOWPATH_GUARDED_BY(mutex_);
};

}  // namespace towpath::memory
