// What nixlAgent (towpath/nixl/_bindings.py) is derived from: its memory, its transfers and its
// notifications, by integers (nixl_registering.cc, nixl_transfers.cc).
// Thread: with the interpreter's lock, which every call into the library gives up.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <pybind11/pybind11.h>

#include <towpath/compat/nixl/memory_view.h>

#include "bindings/python/src/agent.h"
#include "bindings/python/src/convert.h"
#include "bindings/python/src/handle_table.h"
#include "bindings/python/src/nixl_calls.h"
#include "bindings/python/src/side.h"
#include "bindings/python/src/tables.h"
#include "bindings/python/src/transfer.h"

namespace towpath::python {

class NixlAgent {
 public:
  /// `agent`: a towpath.Agent.
  explicit NixlAgent(py::object agent);

  // NIXL's methods; their parameters stand with their names.
  py::object register_list(const Given& given);
  py::object deregister_list(const Given& given);
  py::object query(const Given& given);
  py::object metadata(const Given& given);
  py::object prepare(const Call& call);
  py::object make(const Given& given);
  py::object create(const Given& given);
  py::object post(const Given& given);
  py::object status(const Given& given);
  py::object release(const Given& given);
  py::object release_list(const Given& given);
  py::object prepare_view(const Given& given);
  py::object release_view(const Given& given);
  py::object notifications(const Given& given);
  py::object notify(const Given& given);

  // Not NIXL's: for the methods that are written in Python.
  py::object add_backend(const Given& given);
  py::object backend_of(const Given& given);
  py::object types_of(const Given& given);
  py::object transfer_of(const Given& given);
  py::object asked_of(const Given& given);
  py::object drop(const Given& given);

 private:
  /// A backend of NIXL's: the types of ours that serve it, each in the others' place.
  struct Backend {
    py::dict known;  ///< what Python made of it
    std::vector<std::string> types;
    std::vector<MemoryKind> kinds;
  };
  // `backends`: handles, of those that were asked for; null: any.
  struct List {
    PyPrepared list;
    py::object backends;
  };
  struct Request {
    PyTransfer transfer;
    py::object backends;
  };

  /// Raises InvalidArgument.
  NixlMemory::BackendNumber number_of_backend(py::handle handle) const;
  const Backend& backend(NixlMemory::BackendNumber number) const { return backends_[number - 1]; }
  /// The backends with these handles, each once; of none, those that take the memory.
  std::vector<NixlMemory::BackendNumber> takers(const Given& given, std::size_t backends,
                                                MemoryKind kind) const;
  std::vector<std::string> types_of(const py::object& backends) const;
  /// What is asked for with a transfer, but for the indices.
  agent::TransferOptions options_of(const Given& given, std::size_t message,
                                    const py::object& backends) const;
  /// Raises where none of the backends that are asked for carries notifications.
  void check_notifications(const Given& given, std::size_t backends) const;
  py::object add(const Name& peer, const Side& side, py::object backends);
  /// What a transfer names of one side. Owned for the time of a call: another thread may release it
  /// meanwhile.
  struct Part {
    std::shared_ptr<const agent::PreparedList> list;
    Indices indices;
    py::object backends;
  };
  Part part(py::handle handle, py::handle indices) const;
  /// As above. Raises InvalidArgument.
  std::shared_ptr<agent::Transfer> transfer(py::handle handle) const;
  py::object add(agent::Transfer made, py::object backends);
  py::object state(bool done) const { return done ? success_ : in_progress_; }

  py::object owner_;
  PyAgent& agent_;
  py::object success_;
  py::object in_progress_;
  std::vector<Backend> backends_;  // the first has the handle 1
  HandleTable<List> lists_;
  HandleTable<Request> requests_;
  HandleTable<std::shared_ptr<const nixl::MemoryView>> views_;
};

/// Raises InvalidArgument: no such thing of this agent has the handle.
[[noreturn]] void no_such(const char* what, std::uint64_t handle);

void bind_nixl_agent(py::module_& module);
/// The methods of nixl_registering.cc.
void bind_nixl_registering(py::class_<NixlAgent>& type);

}  // namespace towpath::python
