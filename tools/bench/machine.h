// What the sides of a measurement in one process share: the GPUs that the options name (this
// machine's, or host memory that emulates one), and the backends over them.
// Thread: immutable.
#pragma once

#include <memory>

#include <towpath/backend/registry.h>
#include <towpath/device/device.h>
#include <towpath/standard/gpus.h>

#include "tools/bench/options.h"

namespace towpath::tools::bench {

struct Machine {
  explicit Machine(const Options& options);
  /// Errors: unsupported (no GPU, and what is missing).
  Result<std::shared_ptr<device::Device>> first_device() const;

  const device::DriverSource devices;
  const backend::Registry registry;
};

}  // namespace towpath::tools::bench
