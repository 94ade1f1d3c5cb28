// nvme: between host memory and raw NVMe namespaces of this machine. See README.md.
// Thread: immutable; what it opens follows the contract (backend/backend.h).
#pragma once

#include <memory>

#include <towpath/backend/registry.h>
#include <towpath/backends/nvme/driver.h>

namespace towpath::backends::nvme {

/// Built with TOWPATH_WITH_NVME=OFF it says so when it is asked or opened.
backend::BackendType nvme_type();
/// With namespaces opened by `driver`, which others may share (maintenance.h).
backend::BackendType nvme_type(std::shared_ptr<Driver> driver);

}  // namespace towpath::backends::nvme
