// Makes a trace of the published shape, so that nothing need be downloaded: prompt lengths with a
// long tail, sessions that grow turn by turn on one prefix, system prompts that many sessions
// share, and arrivals in bursts on ticks of three seconds.
//
// The shape is that of Mooncake's conversation trace (prompts: median 6,909 tokens, 99th percentile
// 85,401; outputs: mean 343; infinite-cache hit ratio 0.37; up to 28 arrivals at once). The same
// options give the same trace on every machine.
// Thread: none of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/traces/trace.h"

namespace towpath::traces {

struct GeneratorOptions {
  std::uint64_t requests = 1000;
  std::uint64_t seed = 1;
  double follow_up = 0.33;  ///< how many requests go on with an earlier session
  double length_scale = 1;  ///< of prompts; 0.25 makes a trace a quarter as heavy
  std::uint64_t tokens_per_block = 512;
};

class TraceGenerator final : public RequestSource {
 public:
  explicit TraceGenerator(GeneratorOptions options) : options_(options), state_(options.seed) {}
  Result<std::optional<Request>> next() override;

 private:
  struct Session {
    std::vector<std::uint64_t> hash_ids;
    std::uint64_t tokens = 0;
  };
  std::uint64_t random();
  double uniform();  // in [0, 1)
  double normal();
  std::uint64_t tokens_of_prompt();
  std::uint64_t tick();
  Session begin_session();
  void grow(Session& session, std::uint64_t tokens);

  const GeneratorOptions options_;
  std::uint64_t state_;
  std::uint64_t made_ = 0;
  std::uint64_t next_id_ = 0;
  std::uint64_t now_ms_ = 0;
  std::uint64_t left_in_tick_ = 0;
  std::vector<std::vector<std::uint64_t>> system_prompts_;
  std::vector<Session> sessions_;  // recent ones
};

}  // namespace towpath::traces
