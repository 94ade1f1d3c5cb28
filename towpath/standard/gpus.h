// The GPUs of this machine, for the backends of the composition that move or stage their memory.
// Thread: any.
#pragma once

#include <towpath/device/driver.h>

namespace towpath::standard {

/// NVIDIA's, where their driver is installed. It is started when device memory is first registered.
device::DriverSource gpus();

}  // namespace towpath::standard
