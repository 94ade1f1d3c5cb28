// The kernel's nvme driver, as this backend uses it: /dev/ngXnY, ioctls for what happens seldom, an
// io_uring of 128-byte submissions for the rest.
//
// Thread: any; as driver.h.
#pragma once

#include <memory>

#include <towpath/backends/nvme/driver.h>
#include <towpath/backends/nvme/in_use.h>

namespace towpath::backends::nvme {

/// Two opens of one namespace with one driver share what is open, so that its claim on the device
/// is held once.
std::shared_ptr<Driver> kernel_driver(SystemRoot root = {});

}  // namespace towpath::backends::nvme
