// The part of towpath.Agent that brings metadata to others and loads theirs
// (standard::MetadataExchange). Thread: with the interpreter's lock.
#pragma once

#include "bindings/python/src/agent.h"

namespace towpath::python {

void bind_exchange(py::class_<PyAgent>& type);

}  // namespace towpath::python
