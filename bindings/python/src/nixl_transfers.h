// What nixlAgent (towpath/nixl/_bindings.py) is derived from: transfers and notifications, by
// integers.
// Thread: with the interpreter's lock, which every call into the library gives up.
#pragma once

#include <memory>

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

class NixlTransfers {
 public:
  /// `agent`: a towpath.Agent.
  explicit NixlTransfers(py::object agent);

  // NIXL's methods; their parameters stand with their names.
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
  py::object transfer_of(const Given& given);
  py::object asked_of(const Given& given);
  py::object drop(const Given& given);

 private:
  // `backends`: handles, of those that were asked for; null: any.
  struct List {
    PyPrepared list;
    py::object backends;
  };
  struct Request {
    PyTransfer transfer;
    py::object backends;
  };

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
  HandleTable<List> lists_;
  HandleTable<Request> requests_;
  HandleTable<std::shared_ptr<const nixl::MemoryView>> views_;
};

void bind_nixl_transfers(py::module_& module);

}  // namespace towpath::python
