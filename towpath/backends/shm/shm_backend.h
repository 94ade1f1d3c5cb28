// shm: agents of one host, one-sided, by loads and stores or process_vm_readv/writev. See
// README.md. Thread: immutable; what it opens follows the contract (backend/backend.h).
#pragma once

#include <towpath/backend/registry.h>
#include <towpath/device/driver.h>

namespace towpath::backends::shm {

/// `devices`: for device memory of peers; with none, host memory only.
backend::BackendType shm_type(device::DriverSource devices = {});

}  // namespace towpath::backends::shm
