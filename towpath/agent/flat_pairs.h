// FlatPairs: two lists of blocks, in any order, seen as pairs; how many of them one segment can
// hold is known before the segment is written.
//
//   gapless   | i | i+1 | i+2 |           neighbours on both sides: one longer extent
//   strided   | i |    | i+1 |    | i+2 | equal distances on either side, three at least
//
// Two blocks of which one merely lies behind the other are no run: of blocks in random order a
// quarter of the neighbours do. To join them spares little, and is a branch that nobody foresees.
// Thread: none of its own.
#pragma once

#include <cstdint>

#include <towpath/agent/resolved_list.h>

namespace towpath::agent {

struct FlatPair {
  const FlatExtent& here;
  const FlatExtent& there;
  bool is_even() const noexcept { return here.length == there.length; }
};

/// What one segment can hold, as one has it: `count` extents of `length` bytes.
struct FlatRun {
  std::uint64_t pairs = 1;
  std::uint64_t length = 0;
  std::uint64_t count = 1;
  std::uint64_t stride_here = 0;
  std::uint64_t stride_there = 0;
};

/// `Here` and `There` give the extent at a position: as it is listed, or by an index.
template <typename Here, typename There>
class FlatPairs {
 public:
  FlatPairs(Here here, There there, std::uint64_t count) noexcept
      : here_(here), there_(there), count_(count) {}

  FlatPair at(std::uint64_t position) const noexcept { return {here_(position), there_(position)}; }

  /// Whether run_from() has to be asked, at a poll_once.
  bool may_run(std::uint64_t first) const noexcept {
    if (first + 2 >= count_) return true;
    const FlatExtent& one = here_(first);
    const FlatExtent& next = here_(first + 1);
    const std::uint64_t step = next.address - one.address;
    return step == one.length || step == here_(first + 2).address - next.address;
  }
  /// From `first` on, which is even. No more bytes without a gap than `max_bytes`, unless one pair
  /// has more.
  FlatRun run_from(std::uint64_t first, std::uint64_t max_bytes) const noexcept {
    const FlatRun run = gapless_run(first, max_bytes);
    return run.pairs > 1 ? run : strided_run(first);
  }

 private:
  static bool share_memory(const FlatPair& one, const FlatPair& other) noexcept {
    return one.here.record == other.here.record && one.there.record == other.there.record;
  }

  FlatRun gapless_run(std::uint64_t first, std::uint64_t max_bytes) const noexcept {
    const FlatPair begin = at(first);
    FlatRun run{.length = begin.here.length};
    for (; first + run.pairs < count_; ++run.pairs) {
      const FlatPair next = at(first + run.pairs);
      if (next.here.address - begin.here.address != run.length ||
          next.there.address - begin.there.address != run.length || !next.is_even() ||
          !share_memory(begin, next) || run.length + next.here.length > max_bytes)
        break;
      run.length += next.here.length;
    }
    return run;
  }

  FlatRun strided_run(std::uint64_t first) const noexcept {
    const FlatPair begin = at(first);
    FlatRun run{.length = begin.here.length};
    if (first + 2 >= count_) return run;
    const FlatPair second = at(first + 1);
    run.stride_here = second.here.address - begin.here.address;
    run.stride_there = second.there.address - begin.there.address;
    const auto takes = [&](std::uint64_t number) {
      const FlatPair next = at(first + number);
      return next.here.address - begin.here.address == number * run.stride_here &&
             next.there.address - begin.there.address == number * run.stride_there &&
             next.here.length == run.length && next.is_even() && share_memory(begin, next);
    };
    const bool ascends =
        second.here.address > begin.here.address && second.there.address > begin.there.address;
    if (!ascends || !takes(1) || !takes(2)) return {.length = run.length};
    for (run.pairs = 3; first + run.pairs < count_ && takes(run.pairs);) ++run.pairs;
    run.count = run.pairs;
    return run;
  }

  const Here here_;
  const There there_;
  const std::uint64_t count_;
};

}  // namespace towpath::agent
