// The part of towpath.Agent that knows backends under NIXL's names (nixl::NixlBackends), for
// towpath.nixl.
// Thread: with the interpreter's lock.
#pragma once

#include "bindings/python/src/agent.h"

namespace towpath::python {

void bind_nixl_backends(py::class_<PyAgent>& type);

}  // namespace towpath::python
