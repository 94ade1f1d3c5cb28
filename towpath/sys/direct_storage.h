// Whether bytes can go straight between a drive and a GPU: three questions, which must not be taken
// for one another.
//
//   library   can libcufile be loaded, and does its configuration allow the direct ways?
//   GPU       can this machine's GPU be an end: by nvidia-fs, or by the kernel's own P2PDMA?
//   file      can files of this directory be an end: file system, drive, O_DIRECT?
//
// Each signal is a finding of its own. What they come to is a way, with the reasons against better
// ones. Findings are promises, not proofs: only bytes that were moved and counted prove a way.
// Thread: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/finding.h>
#include <towpath/sys/machine.h>

namespace towpath::sys {

enum class DirectPath {
  p2pdma,       ///< drive to GPU, by pages that the kernel has for the GPU's memory
  nvidia_fs,    ///< drive to GPU, by nvidia-fs and a storage driver with its hooks
  compat,       ///< libcufile stages through host memory
  unavailable,  ///< no libcufile that works
  not_built,    ///< this build has no GPUDirect Storage
};

std::string_view name_of(DirectPath direct_path) noexcept;

struct DirectStorageOptions {
  MachineRoot root;
  std::string boot = "/boot";
  /// Tried in this order.
  std::vector<std::string> libraries = {"libcufile.so.0", "libcufile.so"};
  /// What libcufile loads for file systems over RDMA.
  std::vector<std::string> rdma_libraries = {"libcufile_rdma.so.1", "libcufile_rdma.so"};
  /// CUFILE_ENV_PATH_JSON names another one.
  std::string configuration = "/etc/cufile.json";
  std::vector<std::string> directories;
};

struct DirectStorage {
  std::vector<Finding> library;
  std::vector<Finding> gpu;
  std::vector<Finding> files;  ///< of each directory in turn
  DirectPath direct_path = DirectPath::unavailable;
  std::string why;  ///< what stands against a better way; empty when it is direct
};

/// Asks everything. Loads libcufile into this process when it is there, and calls nothing of it.
DirectStorage probe_direct_storage(const DirectStorageOptions& options = {});

/// All findings in the order above, and the way as the last one.
std::vector<Finding> findings_of(const DirectStorage& storage);

/// Of the file system that mountinfo shows for `device` ("259:1"), the drive under it, and how far
/// that is from each GPU.
/// Source: proc(5), sysfs; ext4 counts when it writes data in order (GDS guide, file systems).
std::vector<Finding> probe_storage_device(const std::string& directory, const std::string& device,
                                          const MachineRoot& root = {});

}  // namespace towpath::sys
