// The extension module towpath._towpath: the library's own nouns, spelled in Python. What is above
// them (towpath/__init__.py, towpath/nixl) is written in Python.
#include <pybind11/pybind11.h>

#include "bindings/python/src/agent.h"
#include "bindings/python/src/awaiting.h"
#include "bindings/python/src/blobs.h"
#include "bindings/python/src/connector.h"
#include "bindings/python/src/descriptors.h"
#include "bindings/python/src/keyed.h"
#include "bindings/python/src/memory.h"
#include "bindings/python/src/nixl_agent.h"
#include "bindings/python/src/nixl_handles.h"
#include "bindings/python/src/nixl_lists.h"
#include "bindings/python/src/policy.h"
#include "bindings/python/src/transfer.h"

namespace {

/// To let go of an exception, pybind11 takes the lock of the main interpreter: in another one,
/// which has it, that waits for itself. Raises ImportError there, in a way that does without.
void check_interpreter() {
  if (PyInterpreterState_Get() != PyInterpreterState_Main())
    throw pybind11::import_error(
        "towpath works in a process' main interpreter, and this is another one (hint: use threads "
        "or processes instead of sub-interpreters)");
}

}  // namespace

PYBIND11_MODULE(_towpath, module) {
  using namespace towpath::python;
  module.doc() = "Towpath's library; use the package towpath.";
  module.attr("__version__") = TOWPATH_VERSION;
  module.def("check_interpreter", &check_interpreter);
  bind_memory(module);
  bind_descriptors(module);
  bind_nixl_lists(module);
  bind_transfers(module);
  bind_agent(module);
  bind_awaiting(module);
  bind_nixl_handles(module);
  bind_nixl_agent(module);
  bind_connector(module);
  bind_keyed(module);
  bind_policy(module);
  bind_blobs(module);
}
