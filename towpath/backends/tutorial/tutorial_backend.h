// tutorial: moves bytes between two places of one agent's host memory. The smallest backend there
// is: docs/tutorial/README.md makes one of your own out of it. Thread: as Backend.
#pragma once

#include <towpath/backend/registry.h>

namespace towpath::backends::tutorial {

backend::BackendType tutorial_type();

}  // namespace towpath::backends::tutorial
