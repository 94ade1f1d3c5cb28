// Which block is evicted, for engines that keep their own cache; towpath/vllm/policies.py gives it
// the shape of vLLM's.
#pragma once

#include <pybind11/pybind11.h>

namespace towpath::python {

void bind_policy(pybind11::module_& module);

}  // namespace towpath::python
