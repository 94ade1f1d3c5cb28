// gds: between a GPU's memory and files of the agent itself, straight, by NVIDIA's GPUDirect
// Storage. See README.md.
// Thread: immutable; what it opens follows the contract (backend/backend.h).
#pragma once

#include <functional>
#include <memory>

#include <towpath/backend/registry.h>
#include <towpath/device/driver.h>

namespace towpath::backends::gds {

/// How the backend comes to the GPUs whose memory is registered with it.
using OpenDriver = std::function<Result<std::shared_ptr<device::Driver>>()>;

backend::BackendType gds_type(OpenDriver open_driver);

}  // namespace towpath::backends::gds
