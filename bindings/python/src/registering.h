// What makes memory known to towpath.Agent: objects and bare addresses.
// Thread: with the interpreter's lock, which every call into the library gives up.
#pragma once

#include "bindings/python/src/agent.h"

namespace towpath::python {

/// As it is. Raises OutOfRange where it goes past the end of 64-bit space.
RegionDescriptor checked(RegionDescriptor region);
/// A region that keeps `owner` alive (None: nobody). Raises InvalidArgument where it is empty.
HeldRegion held(RegionDescriptor region, const py::object& owner);

void bind_registering(py::class_<PyAgent>& type);

}  // namespace towpath::python
