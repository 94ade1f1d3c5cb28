#include "bindings/python/src/moving.h"

#include <pybind11/stl.h>

#include <towpath/core/format.h>

#include "bindings/python/src/side.h"
#include "bindings/python/src/tables.h"

namespace towpath::python {
namespace {

using agent::Agent;

TransferOp to_op(const std::string& word) {
  if (word == "read") return TransferOp::read;
  if (word == "write") return TransferOp::write;
  raise(error(Code::invalid_argument, cat("no operation '", printable(word), "'"),
              "use 'read' or 'write'"));
}

std::unique_ptr<PyPrepared> prepare(const PyAgent& self, const py::object& local) {
  const Side side(local);
  return std::make_unique<PyPrepared>(self.ask([&](Agent& agent) { return side.prepare(agent); }));
}

std::unique_ptr<PyPrepared> prepare_remote(const PyAgent& self, const Name& peer,
                                           const py::object& remote) {
  const Side side(remote);
  return std::make_unique<PyPrepared>(
      self.ask([&](Agent& agent) { return side.prepare(agent, peer); }));
}

struct Sides {
  const PyPrepared& local;
  const PyPrepared& remote;
  const py::object& local_indices;
  const py::object& remote_indices;
};

std::unique_ptr<PyTransfer> make_transfer(const PyAgent& self, const std::string& op,
                                          const Sides& sides,
                                          const std::optional<Blob>& notification,
                                          const std::vector<Name>& backends, bool merge) {
  const Indices local(sides.local_indices);
  const Indices remote(sides.remote_indices);
  agent::TransferOptions options{.local = local.selection(),
                                 .remote = remote.selection(),
                                 .backends = to_strings(backends),
                                 .merge = merge};
  if (notification) options.notification = notification->value;
  const TransferOp what = to_op(op);
  const auto here = sides.local.get();
  const auto there = sides.remote.get();
  return std::make_unique<PyTransfer>(
      self.ask([&](Agent& agent) { return agent.make_transfer(what, *here, *there, options); }),
      self.home());
}

std::unique_ptr<PyTransfer> create_from_lists(const PyAgent& self, const std::string& op,
                                              const py::object& local, const Name& peer,
                                              const py::object& remote,
                                              const std::optional<Blob>& notification,
                                              const std::vector<Name>& backends) {
  agent::TransferOptions options{.backends = to_strings(backends)};
  if (notification) options.notification = notification->value;
  const TransferOp what = to_op(op);
  const Side here(local);
  const Side there(remote);
  return std::make_unique<PyTransfer>(self.ask([&](Agent& agent) {
    return create_transfer(agent, what, {here, there, peer}, options);
  }),
                                      self.home());
}

agent::Explanation explain(const PyAgent& self, const std::string& op, const PyPrepared& local,
                           const PyPrepared& remote) {
  const TransferOp what = to_op(op);
  const auto here = local.get();
  const auto there = remote.get();
  return self.ask([&](Agent& agent) { return agent.explain(what, *here, *there); });
}

}  // namespace

void bind_moving(py::class_<PyAgent>& type) {
  type.def("prepare", &prepare, py::arg("local"))
      .def("prepare_remote", &prepare_remote, py::arg("peer"), py::arg("remote"))
      .def(
          "make_transfer",
          [](const PyAgent& self, const std::string& op, const PyPrepared& local,
             const PyPrepared& remote, const py::object& local_indices,
             const py::object& remote_indices, const std::optional<Blob>& notification,
             const std::vector<Name>& backends, bool merge) {
            return make_transfer(self, op, {local, remote, local_indices, remote_indices},
                                 notification, backends, merge);
          },
          py::arg("op"), py::arg("local"), py::arg("remote"), py::arg("local_indices") = py::none(),
          py::arg("remote_indices") = py::none(), py::arg("notification") = py::none(),
          py::arg("backends") = std::vector<Name>(), py::arg("merge") = true)
      .def("create_transfer", &create_from_lists, py::arg("op"), py::arg("local"), py::arg("peer"),
           py::arg("remote"), py::arg("notification") = py::none(),
           py::arg("backends") = std::vector<Name>())
      .def(
          "post_and_look",
          [](const PyAgent& self, const PyTransfer& transfer, const Blob& notification) {
            const auto kept = transfer.get();
            return post_and_look(self, *kept, notification);
          },
          "transfer.post(), progress() where that did not move all of it, and transfer.poll(), in "
          "one call.",
          py::arg("transfer"), py::arg("notification") = Blob())
      .def(
          "look",
          [](const PyAgent& self, const PyTransfer& transfer) {
            const auto kept = transfer.get();
            return look(self, *kept);
          },
          "progress() and transfer.poll() in one call. None: it was never posted.",
          py::arg("transfer"))
      .def("explain", &explain, py::arg("op"), py::arg("local"), py::arg("remote"));
}

}  // namespace towpath::python
