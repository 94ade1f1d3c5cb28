// NUMA: which memory is near which processors, as the kernel tells it below /sys.
//
// It places nothing: that is for who allocates and who starts threads.
// Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/result.h>

namespace towpath::sys {

struct NumaNode {
  unsigned id = 0;
  std::vector<unsigned> cpus;  ///< ascending; empty for a node of memory alone
  std::uint64_t memory_bytes = 0;

  friend bool operator==(const NumaNode&, const NumaNode&) = default;
};

/// "0-3,8,10-11" as numbers, ascending, each once; empty text is no numbers.
/// Errors: corrupt (no such list, or a number above 65535).
Result<std::vector<unsigned>> parse_cpu_list(std::string_view text);

/// All nodes, ascending. A kernel without NUMA is one node 0 with all processors that are online,
/// and memory_bytes 0 for unknown. Errors: not_found (`sys` is no /sys), corrupt.
Result<std::vector<NumaNode>> numa_nodes(const std::string& sys = "/sys");

/// The node this thread runs on now; it may move at any moment. getcpu(2).
unsigned current_numa_node() noexcept;

}  // namespace towpath::sys
