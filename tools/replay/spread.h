// Spread: how long each of many moves took, to within 3 %, as a value that can travel and be added
// to another process's. Buckets are telemetry::Histogram's, only those that are used.
// Thread: none of its own.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <towpath/core/clock.h>

namespace towpath::tools::replay {

class Spread {
 public:
  void add(Duration time);
  void add(const Spread& other);

  std::uint64_t count() const { return count_; }
  Duration sum() const { return Duration(static_cast<std::int64_t>(sum_ns_)); }
  /// What `percent` of the moves did not exceed; 0 when there was none.
  Duration percentile(double percent) const;

  /// As numbers that travel; of a list that cannot be one, nothing is taken.
  std::vector<std::uint64_t> packed() const;
  static Spread unpacked(const std::vector<std::uint64_t>& numbers);

 private:
  std::map<std::uint64_t, std::uint64_t> counts_;  // by the largest nanoseconds of a bucket
  std::uint64_t count_ = 0;
  std::uint64_t sum_ns_ = 0;
};

}  // namespace towpath::tools::replay
