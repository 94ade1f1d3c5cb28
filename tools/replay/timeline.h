// Timeline: a quantity over the time of a run, in a bounded number of intervals. When they are used
// up, neighbours are joined and each is twice as long: a run may take a second or a day.
//
// A sum (bytes moved) adds up within an interval; a level (blocks in a pool) is what it was last.
// Thread: none of its own.
#pragma once

#include <cstdint>
#include <vector>

#include <towpath/core/clock.h>

namespace towpath::tools::replay {

class Timeline {
 public:
  enum class Kind : std::uint8_t { sum, level };
  static constexpr std::size_t kIntervals = 96;

  Timeline() : Timeline(Kind::sum) {}
  explicit Timeline(Kind kind) : kind_(kind) {}

  /// `at` never lies before the one before.
  void add(Instant at, std::uint64_t value);

  bool empty() const { return values_.empty(); }
  Instant start() const { return start_; }  ///< of the first interval
  Duration interval() const { return interval_; }
  /// From the first interval to the last that something was added to.
  const std::vector<std::uint64_t>& values() const { return values_; }

  /// Sums of two processes of one machine, whose clocks agree.
  void add(const Timeline& other);

  /// As numbers that travel; of a list that cannot be one, nothing is taken.
  std::vector<std::uint64_t> packed() const;
  static Timeline unpacked(const std::vector<std::uint64_t>& numbers, Kind kind);

 private:
  void halve();

  Kind kind_;
  Instant start_;
  Duration interval_ = std::chrono::milliseconds(1);
  std::vector<std::uint64_t> values_;
};

}  // namespace towpath::tools::replay
