#include "tools/replay/spread.h"

#include <algorithm>
#include <cmath>

#include <towpath/telemetry/metrics.h>

namespace towpath::tools::replay {

using telemetry::Histogram;

void Spread::add(Duration time) {
  const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0));
  ++counts_[Histogram::largest_of(Histogram::bucket_of(ns))];
  ++count_;
  sum_ns_ += ns;
}

void Spread::add(const Spread& other) {
  for (const auto& [largest, count] : other.counts_) counts_[largest] += count;
  count_ += other.count_;
  sum_ns_ += other.sum_ns_;
}

Duration Spread::percentile(double percent) const {
  const double share = std::clamp(percent, 0.0, 100.0) / 100;
  const auto wanted = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count_))));
  std::uint64_t seen = 0;
  for (const auto& [largest, count] : counts_) {
    seen += count;
    if (seen >= wanted) return Duration(static_cast<std::int64_t>(largest));
  }
  return Duration(0);
}

std::vector<std::uint64_t> Spread::packed() const {
  std::vector<std::uint64_t> numbers{sum_ns_};
  for (const auto& [largest, count] : counts_) {
    numbers.push_back(largest);
    numbers.push_back(count);
  }
  return numbers;
}

Spread Spread::unpacked(const std::vector<std::uint64_t>& numbers) {
  Spread spread;
  if (numbers.size() % 2 != 1 || numbers.size() > 2 * Histogram::kBuckets + 1) return spread;
  spread.sum_ns_ = numbers[0];
  for (std::size_t i = 1; i < numbers.size(); i += 2) {
    spread.counts_[std::min<std::uint64_t>(numbers[i], INT64_MAX)] += numbers[i + 1];
    spread.count_ += numbers[i + 1];
  }
  return spread;
}

}  // namespace towpath::tools::replay
