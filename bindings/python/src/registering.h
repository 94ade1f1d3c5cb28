// What makes memory known to towpath.Agent: objects, bare addresses, lists of towpath.nixl.
// Thread: with the interpreter's lock, which every call into the library gives up.
#pragma once

#include "bindings/python/src/agent.h"

namespace towpath::python {

void bind_registering(py::class_<PyAgent>& type);

}  // namespace towpath::python
