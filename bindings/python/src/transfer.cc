#include "bindings/python/src/transfer.h"

#include <algorithm>
#include <chrono>

#include <pybind11/stl.h>

#include <towpath/agent/agent.h>
#include <towpath/core/format.h>

#include "bindings/python/src/agent.h"

namespace towpath::python {
namespace {

Status released(const char* what) {
  return error(Code::not_ready, cat("this ", what, " was released"), "make another one");
}

py::list errors_of(const PyTransfer& self) {
  py::list out;
  for (const agent::DescriptorError& failed : self.get()->errors())
    out.append(py::make_tuple(failed.descriptor, exception_of(failed.status)));
  return out;
}

agent::Explanation explain_transfer(const PyTransfer& self) {
  return unlocked([transfer = self.get()] { return transfer->explain(); });
}

/// Of any, as a debugger shows it.
std::string describe_transfer(const PyTransfer& self) {
  const auto transfer = self.get_if_any();
  if (transfer == nullptr) return "<towpath.Transfer released>";
  return cat("<towpath.Transfer ", name_of(transfer->state()), ", ", name_of(transfer->outcome()),
             ", ", transfer->bytes(), " bytes over ", transfer->backend(), ">");
}

void bind_reports(py::module_& module) {
  using agent::TransferReport;
  py::class_<TransferReport>(module, "TransferReport", "What one posting cost.")
      .def_readonly("start_us", &TransferReport::start_us)
      .def_readonly("post_us", &TransferReport::post_us)
      .def_readonly("transfer_us", &TransferReport::transfer_us)
      .def_readonly("bytes", &TransferReport::bytes)
      .def_readonly("descriptors", &TransferReport::descriptors)
      .def_readonly("segments", &TransferReport::segments)
      .def_property_readonly("bytes_per_second", &TransferReport::bytes_per_second);

  using agent::Candidate;
  py::class_<Candidate>(module, "Candidate", "A backend that was considered for a transfer.")
      .def_readonly("backend", &Candidate::backend)
      .def_readonly("possible", &Candidate::possible)
      .def_readonly("chosen", &Candidate::chosen)
      .def_readonly("reason", &Candidate::reason)
      .def_readonly("path", &Candidate::path)
      .def_readonly("measured", &Candidate::measured)
      .def_property_readonly("estimate_seconds",
                             [](const Candidate& self) { return to_seconds(self.estimate); })
      .def_property_readonly(
          "margin_seconds", [](const Candidate& self) { return to_seconds(self.margin); },
          "How much longer than the estimate the slowest trial took; 0: nobody knows.");
  using agent::Explanation;
  py::class_<Explanation>(module, "Explanation", "Which backend moves the bytes, and why.")
      .def_readonly("what", &Explanation::what)
      .def_readonly("candidates", &Explanation::candidates)
      .def("__str__", &Explanation::to_string);
}

}  // namespace

std::shared_ptr<agent::PreparedList> PyPrepared::get() const {
  if (!handle_) raise(released("prepared list"));
  return handle_.get();
}

std::shared_ptr<agent::Transfer> PyTransfer::get() const {
  auto transfer = get_if_any();
  if (transfer == nullptr) raise(released("transfer"));
  return transfer;
}

void PyTransfer::post(const std::optional<double>& timeout,
                      const std::optional<Blob>& notification) {
  agent::PostOptions options;
  if (timeout.has_value()) options.timeout = to_duration(timeout);
  if (notification.has_value()) options.notification = notification->value;
  check(unlocked([&, transfer = get()] { return transfer->post(options); }));
}

bool poll(const agent::Transfer& transfer) {
  if (!transfer.ended()) return false;
  check(transfer.status());
  return true;
}

bool post_and_look(const PyAgent& agent, agent::Transfer& transfer, const Blob& notification) {
  agent::PostOptions options;
  if (!notification.value.empty()) options.notification = notification.value;
  agent.report([&](agent::Agent& helped) {
    Status posted = transfer.post(options);
    if (posted.ok() && !transfer.ended()) helped.progress();
    return posted;
  });
  return poll(transfer);
}

std::optional<bool> look(const PyAgent& agent, const agent::Transfer& transfer) {
  agent.check_open();
  if (transfer.state() == TransferState::prepared) return std::nullopt;
  if (!transfer.ended()) agent.call([](agent::Agent& helped) { return helped.progress(); });
  return poll(transfer);
}

bool PyTransfer::wait(const std::optional<double>& timeout) const {
  using Time = std::chrono::steady_clock;
  const Duration whole = to_duration(timeout);
  const auto begin = Time::now();
  const auto transfer = get();
  if (transfer->state() == TransferState::prepared)
    raise(error(Code::not_ready, "the transfer was not posted", "call post() before wait()"));
  while (!transfer->ended()) {
    const Duration passed = Time::now() - begin;
    if (passed >= whole) return false;
    unlocked([&] { transfer->wait(std::min(whole - passed, kLongestSleep)); });
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
  return poll(*transfer);
}

void bind_transfers(py::module_& module) {
  bind_reports(module);
  py::class_<PyPrepared>(module, "Prepared", "One side of transfers, looked up once.")
      .def("__len__", &PyPrepared::size)
      .def("release", &PyPrepared::release);
  py::class_<PyTransfer>(module, "Transfer", "A promise that ends exactly once.")
      .def(
          "post",
          [](py::object self, const std::optional<double>& timeout,
             const std::optional<Blob>& notification) {
            py::cast<PyTransfer&>(self).post(timeout, notification);
            return self;
          },
          "Starts moving bytes; `timeout` in seconds, None: the agent's own. Returns itself.",
          py::arg("timeout") = py::none(), py::arg("notification") = py::none())
      .def(
          "poll", [](const PyTransfer& self) { return poll(*self.get()); },
          "True when done, False while under way; raises if it failed.")
      .def("wait", &PyTransfer::wait,
           "Waits until it has ended and is quiesced. False: not within `timeout` seconds. Raises "
           "if "
           "it failed.",
           py::arg("timeout") = py::none())
      .def(
          "__await__",
          [](const py::object& self) {
            return py::module_::import("towpath._awaiting").attr("wait")(self).attr("__await__")();
          },
          "As wait(), in a loop of asyncio. A task that is cancelled cancels the transfer.")
      .def("another_handle", &PyTransfer::another_handle)
      .def(
          "cancel",
          [](const PyTransfer& self) { unlocked([transfer = self.get()] { transfer->cancel(); }); })
      .def("release", &PyTransfer::release, "Lets go of it, at any moment: what runs is cancelled.")
      .def_property_readonly(
          "state", [](const PyTransfer& self) { return std::string(name_of(self.get()->state())); })
      .def_property_readonly(
          "outcome",
          [](const PyTransfer& self) { return std::string(name_of(self.get()->outcome())); })
      .def_property_readonly("ended", [](const PyTransfer& self) { return self.get()->ended(); })
      .def_property_readonly(
          "error", [](const PyTransfer& self) { return exception_of(self.get()->status()); })
      .def_property_readonly("errors", &errors_of)
      .def_property_readonly("bytes", [](const PyTransfer& self) { return self.get()->bytes(); })
      .def_property_readonly("descriptors",
                             [](const PyTransfer& self) { return self.get()->descriptors(); })
      .def_property_readonly("backend",
                             [](const PyTransfer& self) { return self.get()->backend(); })
      .def("report", [](const PyTransfer& self) { return unwrap(self.get()->report()); })
      .def("explain", &explain_transfer)
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", [](PyTransfer& self, const py::args&) { self.release(); })
      .def("__repr__", &describe_transfer);
}

}  // namespace towpath::python
