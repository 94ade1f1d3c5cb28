// What this machine can do with NVMe commands, as findings: can the kernel, which namespaces are
// there, may this user, is each of them free, and can drives reach the memory of other devices.
//
// It sends nothing to any drive and changes nothing. Thread: any.
#pragma once

#include <vector>

#include <towpath/backends/nvme/in_use.h>
#include <towpath/core/finding.h>

namespace towpath::backends::nvme {

/// Whether the kernel has NVMe passthrough (Linux 6.0) and a drive at all.
Finding probe_drives(const SystemRoot& root);
/// One per namespace: can it be read, and written to.
std::vector<Finding> probe_namespaces(const SystemRoot& root);
/// Whether drives can read and write the memory of other devices.
Finding probe_peer_memory(const SystemRoot& root);

/// All of them, with what io_uring can carry.
std::vector<Finding> probe(const SystemRoot& root = {});

}  // namespace towpath::backends::nvme
