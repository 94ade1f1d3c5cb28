// What this machine's GPUs can do, as findings.
// Thread: any.
#pragma once

#include <string>
#include <vector>

#include <towpath/core/finding.h>
#include <towpath/device/cuda/cuda_driver.h>

namespace towpath::device {

struct ProbeOptions {
  CudaDriverOptions driver;
  std::string management = "libnvidia-ml.so.1";  ///< reports what the driver does not
};

/// CUDA's driver, each GPU, and pinned memory for the first, by trying. Nothing stays of it, but
/// the libraries loaded in this process.
std::vector<Finding> probe_devices(const ProbeOptions& options = {});

}  // namespace towpath::device
