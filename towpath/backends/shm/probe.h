// What this machine allows the shm backend to do.
// Thread: any.
#pragma once

#include <vector>

#include <towpath/core/finding.h>

namespace towpath::backends::shm {

/// One finding per path, each from trying it on this process itself.
std::vector<Finding> probe_shm();

}  // namespace towpath::backends::shm
