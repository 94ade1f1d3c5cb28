// Whether a namespace is used by something else on this machine, and what the kernel knows of it.
// Everything is read from files, with a bound, below roots that a test points at its own.
// Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <towpath/core/result.h>

namespace towpath::backends::nvme {

struct SystemRoot {
  std::string proc = "/proc";
  std::string sys = "/sys";
  std::string dev = "/dev";
  std::string boot = "/boot";
};

/// The names below sys/class/nvme-generic, sorted: "ng0n1". None where there is no such folder.
std::vector<std::string> generic_names(const SystemRoot& root);
/// The name of the character device with this number. Errors: invalid_argument (it is no namespace
/// of NVMe).
Result<std::string> generic_name_of(const SystemRoot& root, std::uint64_t device_number);
/// "ng0n1" -> "nvme0n1": the block device of the same namespace.
std::string block_name_of(const std::string& generic_name);

/// Ok when nothing is seen to use the block device. Errors: denied (it has partitions, is held by
/// another device, is mounted, or is swapped to: the message says which), unavailable (it cannot be
/// found out, which is taken for a no). Other mount namespaces are not seen: who writes must claim
/// the device besides (O_EXCL).
Status check_unused(const SystemRoot& root, const std::string& block_name);

/// Bytes of a zone of a namespace whose writes have to keep the order of zones; 0: it has none.
std::uint64_t kernel_zone_bytes(const SystemRoot& root, const std::string& block_name);

/// Bytes of one command that the kernel maps, whatever pages they lie in; UINT64_MAX where it does
/// not say.
std::uint64_t kernel_transfer_limit(const SystemRoot& root, const std::string& block_name);

}  // namespace towpath::backends::nvme
