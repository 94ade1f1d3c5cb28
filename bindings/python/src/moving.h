// What towpath.Agent moves bytes with: sides that are looked up, transfers that are made and
// posted. Thread: with the interpreter's lock, which every call into the library gives up.
#pragma once

#include "bindings/python/src/agent.h"

namespace towpath::python {

void bind_moving(py::class_<PyAgent>& type);

}  // namespace towpath::python
