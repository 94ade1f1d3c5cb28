// What the command line of `towpath replay` says, before it is settled. Thread: immutable.
#pragma once

#include <cstdint>
#include <string>

#include "tools/replay/options.h"

namespace towpath::tools::replay {

struct Arguments {
  Options options;
  std::string role = "both";
  std::string inject;
  std::string policy = "lru";
  std::string format;
  std::uint64_t tokens_per_block = 0;  // 0: as the trace has it
  std::string tiers;
  double timeout_s = 30;
};

}  // namespace towpath::tools::replay
