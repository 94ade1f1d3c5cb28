// Placing memory and threads on NUMA nodes (numa.h reports which there are).
//
// The kernel's calls, not libnuma's: two of them are all that is needed, and a machine that runs us
// then needs no library for it. Containers may forbid them (seccomp without CAP_SYS_NICE).
// Thread: any.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>

namespace towpath::sys {

enum class NodePolicy : std::uint8_t {
  preferred,  ///< elsewhere when the node has no page left
  bound,  ///< nowhere else: touching a page then kills the process when the node is full, unless
          ///< populate() touches it first
};

struct PlaceMemory {
  unsigned node = 0;
  NodePolicy policy = NodePolicy::preferred;
};

/// Pages of `bytes` that are touched from now on come from the node. The begin is page-aligned.
/// Errors: invalid_argument (no such node), denied (a container's profile), unsupported (a kernel
/// without NUMA).
Status place_memory(ByteSpan bytes, const PlaceMemory& where);

/// This thread runs on the node's processors from now on. Errors: not_found (no such node, or one
/// of memory alone), denied.
Status run_on_node(unsigned node, const std::string& sys = "/sys");

/// Touches every page for writing, without changing it. Where the kernel cannot give a page it is
/// an error, not a signal. Errors: exhausted, io_error; unsupported (Linux before 5.14). Source:
/// madvise(2), MADV_POPULATE_WRITE.
Status populate(ByteSpan bytes);

/// How many of the pages lie on which node; those that were never touched are not counted.
/// Errors: as place_memory.
Result<std::map<unsigned, std::uint64_t>> pages_by_node(ByteSpan bytes, std::uint64_t page_bytes);

}  // namespace towpath::sys
