// CacheMeter: where a cache found the blocks that it was asked for, and how many wait in it.
//
//   towpath_cache_blocks_total{agent, found_in}    found_in: "host", "disk", ..., "miss"
//   towpath_cache_waiting_blocks{agent, direction}  direction: "promotion", "demotion"
//   towpath_cache_quota_evictions_total{agent}     where tenants have a quota
//
// With a flight recorder each question is reported there, too: a record per place that had some.
// The share of the places but "miss" is the hit ratio. Thread: any.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <towpath/telemetry/flight_recorder.h>
#include <towpath/telemetry/metrics.h>

namespace towpath::telemetry {

class CacheMeter {
 public:
  /// `tiers`: the names of the places, the fastest first. Blocks are of `block_bytes` each.
  CacheMeter(const CacheMeterParts& parts, const std::vector<std::string>& tiers,
             std::uint64_t block_bytes);

  /// A question for blocks: how many each tier has, and in the end how many none has; as many
  /// numbers as tiers, and one more. Cost: per number that is not 0 an addition, and a record.
  void found(std::span<const std::uint64_t> counts) noexcept;
  /// So many blocks wait now for a promotion, and for a demotion. Cost: two stores.
  void waits(std::size_t up, std::size_t down) noexcept;
  /// So many blocks of tenants that had their share this cache has evicted so far. One call at a
  /// time.
  void over_quota(std::uint64_t evictions) noexcept;

 private:
  struct Place {
    Counter* blocks = nullptr;
    std::uint32_t flight_name = 0;
  };
  FlightRecorder* const flight_;
  const std::uint64_t block_bytes_;
  std::vector<Place> places_;  // the last is "miss"
  Counter* over_quota_ = nullptr;
  std::uint64_t counted_evictions_ = 0;
  Gauge* up_ = nullptr;
  Gauge* down_ = nullptr;
};

}  // namespace towpath::telemetry
