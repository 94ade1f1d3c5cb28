// Blocks by name in a directory, for Python; towpath/lmcache.py and its like give them the shape
// that an engine's plug-ins have.
#pragma once

#include <pybind11/pybind11.h>

namespace towpath::python {

void bind_keyed(pybind11::module_& module);

}  // namespace towpath::python
