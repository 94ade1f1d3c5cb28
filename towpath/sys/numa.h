// NUMA: which memory is near which processors, as the kernel reports it below /sys.
//
// It places nothing: that is for who allocates and who starts threads.
// Thread: any.
#pragma once

#include <cstdint>
#include <optional>
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

/// The node that a device on the PCI bus is near to ("0000:17:00.0", in any case and with a domain
/// of 4 or 8 digits); nothing where the machine does not report, and never a guess.
std::optional<unsigned> numa_node_near_pci(std::string_view address,
                                           const std::string& sys = "/sys");

/// The node this thread runs on now; it may move at any moment. getcpu(2).
unsigned current_numa_node() noexcept;

}  // namespace towpath::sys
