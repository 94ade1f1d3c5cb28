#include "tools/traces/trace_stats.h"

#include <algorithm>
#include <numeric>

namespace towpath::traces {
namespace {

/// In doubles: a trace may report any lengths, whose sum is more than 64 bits hold.
double mean_of(double sum, std::size_t count) {
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

std::uint64_t percentile(const std::vector<std::uint64_t>& sorted, double which) {
  if (sorted.empty()) return 0;
  const auto at = static_cast<std::size_t>(which * static_cast<double>(sorted.size() - 1) + 0.5);
  return sorted[at];
}

}  // namespace

void TraceStats::add(const Request& request) {
  prompts_.push_back(request.input_length);
  blocks_.push_back(request.hash_ids.size());
  timestamps_.push_back(request.timestamp_ms);
  outputs_ += static_cast<double>(request.output_length);
  references_ += request.hash_ids.size();
  distinct_.insert(request.hash_ids.begin(), request.hash_ids.end());
  first_ms_ = std::min(first_ms_, request.timestamp_ms);
  last_ms_ = std::max(last_ms_, request.timestamp_ms);
}

TraceStats::Summary TraceStats::summary() const {
  Summary out;
  out.requests = prompts_.size();
  if (out.requests == 0) return out;
  out.duration_s = static_cast<double>(last_ms_ - first_ms_) / 1000;
  auto prompts = prompts_;
  auto blocks = blocks_;
  auto times = timestamps_;
  std::ranges::sort(prompts);
  std::ranges::sort(blocks);
  std::ranges::sort(times);
  out.prompt_mean = mean_of(std::accumulate(prompts.begin(), prompts.end(), 0.0), prompts.size());
  out.prompt_p50 = percentile(prompts, 0.5);
  out.prompt_p99 = percentile(prompts, 0.99);
  out.prompt_max = prompts.back();
  out.output_mean = mean_of(outputs_, prompts.size());
  out.block_references = references_;
  out.distinct_blocks = distinct_.size();
  out.blocks_p50 = percentile(blocks, 0.5);
  out.blocks_p99 = percentile(blocks, 0.99);
  out.blocks_max = blocks.back();
  out.infinite_cache_hit_ratio = 1 - mean_of(static_cast<double>(distinct_.size()), references_);
  if (references_ == 0) out.infinite_cache_hit_ratio = 0;
  for (std::size_t i = 0; i < times.size();) {
    const auto same = std::ranges::upper_bound(times, times[i]) - times.begin();
    out.max_arrivals_at_once =
        std::max(out.max_arrivals_at_once, static_cast<std::uint64_t>(same) - i);
    ++out.distinct_timestamps;
    i = static_cast<std::size_t>(same);
  }
  return out;
}

}  // namespace towpath::traces
