// First touch: pages get their place when they are touched first, so that is done at once, by
// several threads on the right NUMA node, and before a GPU pins them.
//
// Pinning memory that was touched by many threads is about three times as fast as letting a GPU's
// driver allocate it, since the driver zeroes pages with one thread.
// Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <towpath/core/bytes.h>
#include <towpath/core/clock.h>
#include <towpath/core/result.h>

namespace towpath::memory {

struct FirstTouch {
  std::optional<unsigned> node;  ///< whose processors touch; nothing: any
  unsigned threads = 0;          ///< 0: the processors of the node, or of the machine, at most 16
  /// Looked at between stretches of 32 MiB. Zero: touch_timeout() of the size.
  Duration timeout{0};
  std::string sys = "/sys";
};

struct Touched {
  unsigned threads = 0;
  std::string note;  ///< why the threads could not run on the node; empty: they did
};

/// 10 s and 1 s for each GiB, at most 300 s: a busy machine's time, with some to spare.
Duration touch_timeout(std::uint64_t size_bytes) noexcept;

/// Touches every page for writing; no byte changes. Errors: timed_out (how far it came), exhausted
/// (no pages are left, on that node if the memory is bound to it).
Result<Touched> touch_first(ByteSpan bytes, const Clock& clock, const FirstTouch& options = {});

}  // namespace towpath::memory
