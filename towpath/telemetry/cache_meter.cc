#include <algorithm>
#include <utility>

#include <towpath/telemetry/cache_meter.h>
#include <towpath/telemetry/flight_recorder.h>

namespace towpath::telemetry {

CacheMeter::CacheMeter(const CacheMeterParts& parts, const std::vector<std::string>& tiers,
                       std::uint64_t block_bytes)
    : flight_(parts.flight), block_bytes_(block_bytes) {
  const std::string agent = name_label(parts.agent);
  std::vector<std::string> names = tiers;
  names.emplace_back("miss");
  for (const std::string& name : names) {
    Place& place = places_.emplace_back();
    if (parts.metrics != nullptr)
      place.blocks = &parts.metrics->counter("towpath_cache_blocks_total",
                                             {{"agent", agent}, {"found_in", name}});
    if (flight_ != nullptr) place.flight_name = flight_->add_name(name);
  }
  if (parts.metrics == nullptr) return;
  const auto gauge = [&](const char* direction) {
    return &parts.metrics->gauge("towpath_cache_waiting_blocks",
                                 {{"agent", agent}, {"direction", direction}});
  };
  up_ = gauge("promotion");
  down_ = gauge("demotion");
  over_quota_ = &parts.metrics->counter("towpath_cache_quota_evictions_total", {{"agent", agent}});
}

void CacheMeter::found(std::span<const std::uint64_t> counts) noexcept {
  for (std::size_t i = 0; i < std::min(counts.size(), places_.size()); ++i) {
    if (counts[i] == 0) continue;
    if (places_[i].blocks != nullptr) places_[i].blocks->add(counts[i]);
    if (flight_ != nullptr)
      (void)flight_->record(static_cast<std::uint32_t>(FlightEvent::blocks_found),
                            {counts[i], i, i + 1 == places_.size(), counts[i] * block_bytes_},
                            places_[i].flight_name);
  }
}

void CacheMeter::over_quota(std::uint64_t evictions) noexcept {
  const std::uint64_t before = std::exchange(counted_evictions_, evictions);
  if (over_quota_ != nullptr) over_quota_->add_alone(evictions - before);
}

void CacheMeter::waits(std::size_t up, std::size_t down) noexcept {
  if (up_ == nullptr) return;
  up_->set(static_cast<std::int64_t>(up));
  down_->set(static_cast<std::int64_t>(down));
}

}  // namespace towpath::telemetry
