#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/sys/numa.h>
#include <towpath/sys/numa_placement.h>
#include <towpath/sys/os_error.h>

// Linux 5.14; Debian 12's headers know it, older ones may not.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace towpath::sys {
namespace {

constexpr unsigned kMostNodes = 1024;  // the kernel's own bound (MAX_NUMNODES)
constexpr unsigned kWordBits = 64;
constexpr std::size_t kPagesAtOnce = 4096;
constexpr const char* kAllowIt = "run the container with --cap-add SYS_NICE, or place nothing";

}  // namespace

Status place_memory(ByteSpan bytes, const PlaceMemory& where) {
  std::array<unsigned long, kMostNodes / kWordBits> mask{};  // NOLINT(google-runtime-int)
  if (where.node >= kMostNodes)
    return error(Code::invalid_argument, cat("no NUMA node ", where.node),
                 "see /sys/devices/system/node");
  mask[where.node / kWordBits] = 1UL << (where.node % kWordBits);
  const int mode = where.policy == NodePolicy::bound ? MPOL_BIND : MPOL_PREFERRED;
  // The kernel reads one bit less than it is given.
  if (::syscall(SYS_mbind, bytes.data(), bytes.size(), mode, mask.data(), kMostNodes + 1, 0) == 0)
    return {};
  const int failure = errno;
  return os_error(failure,
                  cat("cannot place ", format_bytes(bytes.size()), " on NUMA node ", where.node),
                  failure == EPERM ? kAllowIt : "");
}

Status run_on_node(unsigned node, const std::string& sys) {
  TOWPATH_TRY(const auto nodes, numa_nodes(sys));
  const auto found = std::ranges::find(nodes, node, &NumaNode::id);
  if (found == nodes.end() || found->cpus.empty())
    return error(Code::not_found, cat("NUMA node ", node, " has no processors, or is not there"),
                 "see /sys/devices/system/node");
  cpu_set_t processors;
  CPU_ZERO(&processors);
  for (const unsigned cpu : found->cpus)
    if (cpu < CPU_SETSIZE) CPU_SET(cpu, &processors);
  if (::sched_setaffinity(0, sizeof processors, &processors) == 0) return {};
  return os_error(errno, cat("cannot run on the processors of NUMA node ", node));
}

Status populate(ByteSpan bytes) {
  while (::madvise(bytes.data(), bytes.size(), MADV_POPULATE_WRITE) != 0) {
    const int failure = errno;
    if (failure == EINTR) continue;
    if (failure == EINVAL)
      return error(Code::unsupported, "this kernel cannot touch pages for us", "Linux 5.14 can");
    // EFAULT stands for the SIGBUS that a touch would have been.
    return os_error(failure == EFAULT ? ENOMEM : failure,
                    cat("cannot have all pages of ", format_bytes(bytes.size())));
  }
  return {};
}

Result<std::map<unsigned, std::uint64_t>> pages_by_node(ByteSpan bytes, std::uint64_t page_bytes) {
  std::map<unsigned, std::uint64_t> counts;
  std::vector<void*> pages;
  std::vector<int> nodes;
  for (std::uint64_t at = 0; at < bytes.size(); at += page_bytes) {
    pages.push_back(bytes.data() + at);
    const bool last = at + page_bytes >= bytes.size();
    if (pages.size() < kPagesAtOnce && !last) continue;
    nodes.assign(pages.size(), -1);
    if (::syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, nodes.data(), 0) != 0)
      return os_error(errno, "cannot ask where pages lie");
    for (const int node : nodes)
      if (node >= 0) ++counts[static_cast<unsigned>(node)];
    pages.clear();
  }
  return counts;
}

}  // namespace towpath::sys
