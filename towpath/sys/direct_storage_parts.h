// The three questions of direct_storage.h, each in a file of its own. Thread: any.
#pragma once

#include <vector>

#include <towpath/core/finding.h>
#include <towpath/sys/direct_storage.h>

namespace towpath::sys::internal {

struct LibraryAnswers {
  std::vector<Finding> findings;
  bool is_there = false;
  bool allows_direct = false;  ///< compat is not forced
  bool allows_p2pdma = false;
};
LibraryAnswers ask_library(const DirectStorageOptions& options);

struct GpuAnswers {
  std::vector<Finding> findings;
  bool nvidia_fs = false;
  bool p2pdma = false;
};
GpuAnswers ask_gpu(const DirectStorageOptions& options);

/// Empty when a directory can be an end, else what stands against it.
std::string reasons_against(const std::vector<Finding>& findings);

}  // namespace towpath::sys::internal
