// What a trace holds, counted: the figures by which traces are compared.
// Thread: none of its own.
#pragma once

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "tools/traces/trace.h"

namespace towpath::traces {

class TraceStats {
 public:
  void add(const Request& request);

  struct Summary {
    std::uint64_t requests = 0;
    double duration_s = 0;
    double prompt_mean = 0;
    std::uint64_t prompt_p50 = 0, prompt_p99 = 0, prompt_max = 0;
    double output_mean = 0;
    std::uint64_t block_references = 0, distinct_blocks = 0;
    std::uint64_t blocks_p50 = 0, blocks_p99 = 0, blocks_max = 0;  ///< per request
    double infinite_cache_hit_ratio = 0;  ///< of block references, with room for all
    std::uint64_t distinct_timestamps = 0;
    std::uint64_t max_arrivals_at_once = 0;
  };
  Summary summary() const;

 private:
  std::vector<std::uint64_t> prompts_;
  std::vector<std::uint64_t> blocks_;
  std::unordered_set<std::uint64_t> distinct_;
  double outputs_ = 0;  // tokens
  std::uint64_t references_ = 0;
  std::uint64_t first_ms_ = UINT64_MAX;
  std::uint64_t last_ms_ = 0;
  std::vector<std::uint64_t> timestamps_;
};

}  // namespace towpath::traces
