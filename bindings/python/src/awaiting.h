// What towpath/_awaiting.py stands on: an agent's events for one loop of asyncio.
#pragma once

#include <pybind11/pybind11.h>

namespace towpath::python {

void bind_awaiting(pybind11::module_& module);

}  // namespace towpath::python
