// Stopwatch: measures how long something takes, and its parts, on a clock that is passed in.
//
//   Stopwatch watch(clock);
//   prepare();  report.prepare = watch.lap();
//   post();     report.post = watch.lap();
//   times.record(watch.elapsed());
//
// Thread: one at a time.
#pragma once

#include <utility>

#include <towpath/core/clock.h>

namespace towpath::telemetry {

class Stopwatch {
 public:
  /// Starts now. `clock` must outlive the stopwatch.
  explicit Stopwatch(const Clock& clock) noexcept
      : clock_(&clock), start_(clock.now()), lap_start_(start_) {}

  Instant start() const noexcept { return start_; }
  /// Since the start. The sum of all laps, when the last one ended just now.
  Duration elapsed() const noexcept { return clock_->now() - start_; }
  /// Since the last lap, or the start; the next lap begins.
  Duration lap() noexcept {
    const Instant now = clock_->now();
    return now - std::exchange(lap_start_, now);
  }
  void restart() noexcept { start_ = lap_start_ = clock_->now(); }

 private:
  const Clock* clock_;
  Instant start_;
  Instant lap_start_;
};

}  // namespace towpath::telemetry
