// CurrentChoice: which of two ways to do one thing, over and over, is the faster one just now.
//
// MeasuredChoice decides once. Here what makes a way slow may be others, who come and go: so both
// are compared again in each round, by their mean, for what slows one down now and then counts,
// too.
//
//   a round:  | the other way | the way taken so far | whichever took less .................. |
//              kTrial calls    kTrial                 kRound - 2 * kTrial
//
// The first call of each trial does not count: what the way needs may have to wake up.
// It measures nothing itself: the caller that does reports it. Thread: loop.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <towpath/core/clock.h>

namespace towpath {

class CurrentChoice {
 public:
  static constexpr std::uint32_t kTrial = 8;
  static constexpr std::uint32_t kRound = 256;

  /// The way for the next call: 0 or 1. In the first round 1 is the other one.
  std::size_t next() noexcept {
    if (call_ == kRound) {
      call_ = 0;
      spent_ = {};
    }
    if (call_ == 2 * kTrial && pace_of(1 - way_) < pace_of(way_)) way_ = 1 - way_;
    return call_ < kTrial ? 1 - way_ : way_;
  }
  /// So long this call took for so much work.
  void note(std::size_t way, Duration took, std::uint64_t work) noexcept {
    const bool is_first = call_ % kTrial == 0;
    if (call_++ >= 2 * kTrial || is_first) return;
    spent_[way].nanoseconds += static_cast<double>(took.count());
    spent_[way].work += static_cast<double>(work);
  }

 private:
  struct Spent {
    double nanoseconds = 0;
    double work = 0;
  };
  double pace_of(std::size_t way) const noexcept {
    return spent_[way].work > 0 ? spent_[way].nanoseconds / spent_[way].work : 0;
  }

  std::size_t way_ = 0;
  std::uint32_t call_ = 0;  // of the round
  std::array<Spent, 2> spent_{};
};

}  // namespace towpath
