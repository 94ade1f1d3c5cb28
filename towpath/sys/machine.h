// What this machine can do for moving bytes, as findings; `towpath doctor` prints them.
//
// Every probe changes nothing that stays, and has an answer for every machine: what cannot be found
// out is `unknown`, never an error.
// Thread: any.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/finding.h>
#include <towpath/sys/file.h>

namespace towpath::sys {

/// Where the kernel reports about itself; a test points it at a directory of its own.
struct MachineRoot {
  std::string proc = "/proc";
  std::string sys = "/sys";
  std::string shared_memory = "/dev/shm";
};

struct KernelRelease {
  unsigned major = 0;
  unsigned minor = 0;
  friend auto operator<=>(const KernelRelease&, const KernelRelease&) = default;
};

/// "6.1.0-13-amd64" -> 6, 1; nothing for what does not begin so.
std::optional<KernelRelease> parse_release(std::string_view text) noexcept;

/// Linux 5.19 or newer: io_uring that can be quieted, 128/32 rings.
Finding probe_kernel(const MachineRoot& root = {});
/// How much memory may be pinned (RLIMIT_MEMLOCK), unless the process is exempt (CAP_IPC_LOCK).
Finding probe_locked_memory(const MachineRoot& root = {});
/// Space for shared memory with a name; ours (memfd) has none and does not need it.
Finding probe_shared_memory(FileSystem& files, const MachineRoot& root = {});
/// Whether memory can be shared by sealed memfds, by making one.
Finding probe_memfd();
/// Reserved huge pages.
Finding probe_huge_pages(const MachineRoot& root = {});
Finding probe_transparent_huge_pages(const MachineRoot& root = {});
Finding probe_numa(const MachineRoot& root = {});
/// Whether this process may choose the node that its memory lies on, by trying with a page.
Finding probe_numa_placement();
/// Whether files in `directory` can be read and written past the page cache, by making one without
/// a name that stays.
Finding probe_direct_io(FileSystem& files, const std::string& directory);

/// All of them, with io_uring (uring.h), process memory (process.h), and what groups and processors
/// there are (processors.h), and ports near GPUs (rdma_ports.h), in the order that a person
/// wants to read; direct I/O for each of `directories`.
std::vector<Finding> probe_machine(FileSystem& files, const std::vector<std::string>& directories,
                                   const MachineRoot& root = {});

}  // namespace towpath::sys
