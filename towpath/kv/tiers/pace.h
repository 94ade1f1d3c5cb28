// Pace: how long a block takes of a place that brings several at once: the time in which it had
// something to do, over the blocks that came in it. Those that did not come cost their time, too.
// Its queue is in it, and what it did long ago is not: the last 16 to 32 blocks count. Thread: one;
// per_block() any.
#pragma once

#include <atomic>
#include <cstdint>

#include <towpath/core/clock.h>

namespace towpath::kv {

class Pace {
 public:
  void begins(std::uint64_t blocks, Instant now) {
    if (under_way_ == 0) since_ = now;
    under_way_ += blocks;
  }
  /// So many have ended, of which so many came.
  void ends(std::uint64_t blocks, std::uint64_t came, Instant now) {
    constexpr std::uint64_t kMost = 32;
    busy_ += now - since_;
    since_ = now;
    under_way_ -= blocks;
    blocks_ += came;
    if (blocks_ == 0) return;
    per_block_.store(busy_.count() / static_cast<std::int64_t>(blocks_), std::memory_order_relaxed);
    for (; blocks_ >= kMost; blocks_ /= 2) busy_ /= 2;
  }
  /// 0: none came yet.
  Duration per_block() const noexcept {
    return Duration(per_block_.load(std::memory_order_relaxed));
  }

 private:
  std::uint64_t under_way_ = 0;
  std::uint64_t blocks_ = 0;  // that came
  Duration busy_{0};          // meanwhile
  Instant since_{0};
  std::atomic<std::int64_t> per_block_{0};  // a figure, in nanoseconds
};

}  // namespace towpath::kv
