// nixl_xfer_handle and nixl_prepped_dlist_handle: an integer of the binding that is released once,
// by hand or at the end of its life. Thread: with the interpreter's lock.
#pragma once

#include <cstdint>

#include <pybind11/pybind11.h>

namespace towpath::python {

namespace py = pybind11;

/// Of such an object, or an integer as it is. Raises InvalidArgument: it was released.
std::uint64_t handle_number(py::handle handle);

void bind_nixl_handles(py::module_& module);

}  // namespace towpath::python
