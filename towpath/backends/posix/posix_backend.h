// posix: between host memory and files of the agent itself. See README.md.
// Thread: immutable; what it opens follows the contract (backend/backend.h).
#pragma once

#include <towpath/backend/registry.h>

namespace towpath::backends::posix {

backend::BackendType posix_type();

}  // namespace towpath::backends::posix
