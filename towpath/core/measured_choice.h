// MeasuredChoice: which of a few ways to do one thing is the fastest here.
//
// Each way is tried as often as was said; what counts is its best time, since anything may slow a
// trial down and nothing speeds it up. Later times change nothing, so that what was chosen stays.
// It measures nothing itself: the caller that does reports it. Thread: loop.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <towpath/core/clock.h>

namespace towpath {

class MeasuredChoice {
 public:
  explicit MeasuredChoice(std::size_t ways, unsigned trials = 1) : ways_(ways), trials_(trials) {}

  std::size_t size() const noexcept { return ways_.size(); }
  bool wants_trial(std::size_t way) const { return ways_[way].tried < trials_; }
  /// It was tried as often as it is, and never got through.
  bool has_failed(std::size_t way) const { return !wants_trial(way) && !ways_[way].best; }
  /// A trial took this long; nothing: it failed. True: it was the last one of this way.
  bool note(std::size_t way, std::optional<Duration> took);
  /// Of its trials so far; nothing: none got through.
  std::optional<Duration> best(std::size_t way) const { return ways_[way].best; }
  /// How much longer the slowest of them took than the best; 0: none did, or only one got through.
  Duration spread(std::size_t way) const;
  /// Of those that got through, the first of the fastest; nothing: none did.
  std::optional<std::size_t> fastest() const;

 private:
  struct Way {
    unsigned tried = 0;
    std::optional<Duration> best, worst;
  };

  std::vector<Way> ways_;
  unsigned trials_;
};

}  // namespace towpath
