// Whether this machine has the memory that a replay takes, asked before it is taken. Thread: any.
#pragma once

#include <cstdint>

#include <towpath/core/result.h>
#include <towpath/sys/machine.h>

#include "tools/replay/options.h"

namespace towpath::tools::replay {

/// The pools of the processes that this one starts, and its own.
struct PoolBytes {
  std::uint64_t prefill = 0;  ///< of each
  std::uint64_t decode = 0;   ///< of each
};
Result<PoolBytes> pool_bytes(const Options& options);

/// What can be had without swapping: of the machine, or of the control group that has less.
/// Nothing where neither says.
std::optional<std::uint64_t> available_memory(const sys::MachineRoot& root = {});

/// Errors: exhausted, with what is wanted, what there is and how to want less.
Status check_memory(const Options& options, std::uint64_t prefills, std::uint64_t decodes,
                    std::optional<std::uint64_t> available);

}  // namespace towpath::tools::replay
