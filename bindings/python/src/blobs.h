// Named blobs in a folder, for Python; towpath/connector.py names them.
#pragma once

#include <pybind11/pybind11.h>

namespace towpath::python {

void bind_blobs(pybind11::module_& module);

}  // namespace towpath::python
