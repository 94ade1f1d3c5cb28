// The connector of an engine, for Python; towpath/connector.py makes them handy.
#pragma once

#include <pybind11/pybind11.h>

namespace towpath::python {

void bind_connector(pybind11::module_& module);

}  // namespace towpath::python
