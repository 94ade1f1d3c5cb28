#include "bindings/python/src/agent.h"

#include <algorithm>
#include <chrono>

#include <pybind11/stl.h>

#include <towpath/core/format.h>
#include <towpath/standard/configuration.h>
#include <towpath/standard/settings.h>
#include <towpath/standard/standard.h>

#include "bindings/python/src/descriptors.h"
#include "bindings/python/src/exchange.h"
#include "bindings/python/src/moving.h"
#include "bindings/python/src/nixl_backends.h"
#include "bindings/python/src/registering.h"

namespace towpath::python {
namespace {

using agent::Agent;

/// What the environment, and under it the configuration file, say of the metadata of towpath.nixl.
/// Raises what is wrong with either.
py::dict settings() {
  const standard::Settings reported =
      unwrap(standard::configure(standard::read_environment())).settings;
  return py::dict(py::arg("etcd_endpoints") = reported.etcd_endpoints,
                  py::arg("etcd_namespace") = reported.etcd_namespace,
                  py::arg("etcd_user") = reported.etcd_user,
                  py::arg("etcd_password_file") = reported.etcd_password_file.value_or(""),
                  py::arg("etcd_ca_file") = reported.etcd_ca_file,
                  py::arg("etcd_cert_file") = reported.etcd_cert_file,
                  py::arg("etcd_key_file") = reported.etcd_key_file,
                  py::arg("listen_host") = reported.listen_host,
                  py::arg("token_file") = reported.token_file.value_or(""),
                  py::arg("transfer_timeout") = to_seconds(
                      reported.transfer_timeout.value_or(standard::kNixlTransferTimeout)));
}

standard::Configuration configured(const standard::Environment& environment,
                                   bool asks_for_telemetry) {
  auto reported = unwrap(standard::configure(environment));
  for (const std::string& warning : reported.warnings_of(asks_for_telemetry)) {
    if (PyErr_WarnEx(PyExc_RuntimeWarning, warning.c_str(), 1) != 0) throw py::error_already_set();
  }
  return reported;
}

std::shared_ptr<Home> open(const PyAgent::Options& options) {
  const standard::Environment environment = standard::read_environment();
  const standard::Configuration reported = configured(environment, options.telemetry);
  auto home = std::make_shared<Home>(reported.settings);
  const telemetry::Log log(home->log, home->clock, cat("agent ", printable(options.name.value)));
  home->registry = unlocked([&] { return standard::make_registry(reported.settings, log); });
  home->nixl = std::make_unique<nixl::NixlBackends>(home->registry, reported.environment, log);
  standard::NodeOptions node{.name = options.name.value,
                             .log = &home->log,
                             .progress_thread = options.progress_thread,
                             .registry = &home->registry,
                             // The code may ask; the environment says the last word.
                             .telemetry = reported.telemetry.decide(options.telemetry)};
  if (reported.settings.transfer_timeout)
    node.default_timeout = *reported.settings.transfer_timeout;
  if (options.default_timeout) node.default_timeout = to_duration(options.default_timeout);
  home->node = unwrap(unlocked([&] { return standard::Node::open(node); }));
  return home;
}

/// None, or where what is counted goes.
py::object telemetry(const PyAgent& self) {
  struct Places {
    std::string flight_path;
    std::string prometheus_url;
  };
  const auto places = self.in_home([](Home& home) -> std::optional<Places> {
    const standard::Telemetry* const counted = home.node->telemetry();
    if (counted == nullptr) return std::nullopt;
    return Places{counted->flight_path(), counted->prometheus_url()};
  });
  if (!places) return py::none();
  return py::dict(py::arg("flight_path") = places->flight_path,
                  py::arg("prometheus_url") = places->prometheus_url);
}

/// Of any mapping. Raises TypeError.
backend::Params to_params(const py::object& mapping) {
  const auto text = [](py::handle one) {
    if (!py::isinstance<py::str>(one) && !py::isinstance<py::bytes>(one))
      throw py::type_error("parameters of a backend are texts, by their names");
    return py::cast<Name>(one).value;
  };
  backend::Params params;
  for (const auto& [name, value] : py::dict(mapping)) params[text(name)] = text(value);
  return params;
}

/// An iterable of names, or a mapping of names to parameters.
std::unique_ptr<PyAgent> make_agent(Name name, const py::object& backends, bool progress_thread,
                                    const std::optional<double>& default_timeout, bool telemetry) {
  if (py::isinstance<py::str>(backends))
    throw py::type_error("backends is a list of names, not one name");
  auto made = std::make_unique<PyAgent>(
      PyAgent::Options{std::move(name), progress_thread, default_timeout, telemetry});
  for (const py::handle backend : backends) {
    const auto type = py::cast<Name>(backend);
    backend::Params params;
    if (py::hasattr(backends, "keys")) params = to_params(backends[backend]);
    made->report([&](Agent& agent) { return agent.add_backend(type.value, params); });
  }
  return made;
}

// ---- what a build knows

py::list strings_of(const std::vector<MemoryKind>& kinds) {
  py::list names;
  for (const MemoryKind kind : kinds) names.append(std::string(name_of(kind)));
  return names;
}

/// Every backend of this build: a dict for each.
py::list backend_types() {
  py::list out;
  const backend::Registry registry = standard::make_registry();
  for (const std::string& name : registry.names()) {
    const backend::BackendType* const type = unwrap(registry.find(name));
    py::dict params;
    for (const backend::ParamInfo& param : type->params)
      params[py::str(param.name)] = py::make_tuple(param.default_value, param.meaning);
    out.append(py::dict(py::arg("name") = type->name, py::arg("summary") = type->summary,
                        py::arg("kinds") = strings_of(type->kinds), py::arg("params") = params));
  }
  return out;
}

py::dict capabilities(const PyAgent& self, const Name& backend) {
  const backend::Capabilities can =
      self.ask([&](Agent& agent) { return agent.capabilities(backend.value); });
  std::vector<MemoryKind> kinds;
  std::ranges::copy_if(kMemoryKinds, std::back_inserter(kinds),
                       [&](MemoryKind kind) { return can.takes(kind); });
  return py::dict(py::arg("kinds") = strings_of(kinds),
                  py::arg("reaches_peers") = can.reaches_peers(),
                  py::arg("notifications") = std::string(name_of(can.notifications)),
                  py::arg("max_notification_bytes") = can.max_notification_bytes,
                  py::arg("quiesced") = std::string(name_of(can.quiesced)),
                  py::arg("alignment") = can.alignment);
}

// ---- metadata and peers

Blob metadata(const PyAgent& self, const py::object& only, bool connection_info) {
  const auto list = only.is_none() ? nullptr : to_list(only);
  return {self.ask([&](Agent& agent) {
    return agent.metadata({.only = list.get(), .connection_info = connection_info});
  })};
}

Name load_metadata(const PyAgent& self, const Blob& bytes) {
  return {self.ask([&](Agent& agent) { return agent.load_metadata(bytes.value); }).name};
}

py::dict peer_to_python(const agent::PeerInfo& peer) {
  return py::dict(py::arg("name") = Name{peer.identity.name},
                  py::arg("incarnation") = peer.identity.incarnation,
                  py::arg("generation") = peer.generation, py::arg("regions") = peer.regions,
                  py::arg("backends") = peer.backends, py::arg("lost") = peer.lost,
                  py::arg("lost_why") = exception_of(peer.lost_why));
}

py::list peers(const PyAgent& self) {
  py::list out;
  for (const agent::PeerInfo& peer : self.call([](Agent& agent) { return agent.peers(); }))
    out.append(peer_to_python(peer));
  return out;
}

bool knows(const PyAgent& self, const Name& peer, const py::object& descriptors) {
  const auto list = descriptors.is_none() ? nullptr : to_list(descriptors);
  const Status known =
      self.call([&](Agent& agent) { return agent.check_peer(peer.value, list.get()); });
  if (known.code() == Code::not_found || known.code() == Code::peer_lost) return false;
  check(known);
  return true;
}

// ---- notifications

py::list messages_to_python(const std::vector<agent::Notification>& messages,
                            py::list out = py::list()) {
  for (const agent::Notification& one : messages)
    out.append(py::make_tuple(Name{one.from.name}, to_python(one.message)));
  return out;
}

/// An empty list that may be awaited.
py::list awaitable_list(const py::object& agent_object) {
  static PyObject* type = nullptr;  // by the interpreter's lock; a static's own would wait for it
  if (type == nullptr)
    type =
        py::object(py::module_::import("towpath._awaiting").attr("Notifications")).release().ptr();
  const py::object list = py::handle(type)();
  list.attr("_agent") = agent_object;
  return py::list(list);  // the same one
}

/// `timeout` None: what is there, which may be awaited. Else waits for the first, at most so many
/// seconds.
py::object notifications(const py::object& agent_object, const std::optional<double>& timeout) {
  const auto& self = py::cast<const PyAgent&>(agent_object);
  if (!timeout) {
    return messages_to_python(self.call([](Agent& agent) { return agent.take_notifications(); }),
                              awaitable_list(agent_object));
  }
  using Time = std::chrono::steady_clock;
  const Duration whole = to_duration(timeout);
  const auto begin = Time::now();
  while (true) {
    const Duration left = std::max(whole - Duration(Time::now() - begin), Duration(0));
    auto messages = self.call(
        [&](Agent& agent) { return agent.wait_notifications(std::min(left, kLongestSleep)); });
    if (!messages.empty() || left == Duration(0)) return messages_to_python(messages);
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

// ---- binding, a part at a time

using AgentClass = py::class_<PyAgent>;

void bind_life(AgentClass& type) {
  type.def(py::init(&make_agent), py::arg("name"), py::arg("backends") = py::tuple(), py::kw_only(),
           py::arg("progress_thread") = true, py::arg("default_timeout") = py::none(),
           py::arg("telemetry") = false)
      .def("close", &PyAgent::close,
           "Ends all transfers and lets go of all memory; waits for the calls of other threads.")
      .def_property_readonly("closed", &PyAgent::closed)
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", [](PyAgent& self, const py::args&) { self.close(); })
      .def_property_readonly("name",
                             [](const PyAgent& self) {
                               return Name{self.call([](Agent& agent) { return agent.name(); })};
                             })
      .def_property_readonly(
          "incarnation",
          [](const PyAgent& self) {
            return self.call([](Agent& agent) { return agent.identity().incarnation; });
          })
      .def_property_readonly("telemetry", &telemetry, "Where it goes; None: nothing is counted.")
      .def_property_readonly("backends",
                             [](const PyAgent& self) {
                               return self.call([](Agent& agent) { return agent.backends(); });
                             })
      .def(
          "add_backend",
          [](const PyAgent& self, const Name& type_name, const py::object& given) {
            const backend::Params params = to_params(given);
            self.report([&](Agent& agent) { return agent.add_backend(type_name.value, params); });
          },
          py::arg("type"), py::arg("params") = py::dict())
      .def("capabilities", &capabilities, py::arg("backend"));
}

void bind_peers(AgentClass& type) {
  type.def("metadata", &metadata, "What a peer loads to reach this agent's memory.",
           py::arg("only") = py::none(), py::kw_only(), py::arg("connection_info") = true)
      .def("load_metadata", &load_metadata, "Makes a peer known, or updates it. Returns its name.",
           py::arg("metadata"))
      .def(
          "forget_peer",
          [](const PyAgent& self, const Name& name) {
            self.report([&](Agent& agent) { return agent.forget_peer(name.value); });
          },
          py::arg("name"))
      .def("peers", &peers)
      .def("knows", &knows,
           "Whether a peer is known and not lost, and all of a list lies in its memory.",
           py::arg("peer"), py::arg("descriptors") = py::none());
}

void bind_messages(AgentClass& type) {
  type.def(
          "notify",
          [](const PyAgent& self, const Name& peer, const Blob& message) {
            self.report([&](Agent& agent) { return agent.notify(peer.value, message.value); });
          },
          py::arg("peer"), py::arg("message"))
      .def("notifications", &notifications,
           "Tuples (sender, message), each reported once. With a timeout it waits for the first; "
           "without, the list may be awaited in asyncio, and waits there.",
           py::arg("timeout") = py::none());
}

void bind_progress(AgentClass& type) {
  type.def(
          "progress",
          [](const PyAgent& self) {
            return self.call([](Agent& agent) { return agent.progress(); });
          },
          "Does a bounded amount of work. True: there is more. Not needed with the thread.")
      .def("fileno", [](const PyAgent& self) {
        return self.call([](Agent& agent) { return agent.wait_fd(); });
      });
}

}  // namespace

PyAgent::PyAgent(const Options& options) : home_(open(options)) {}

void PyAgent::check_open() const {
  if (!home_) raise(error(Code::not_ready, "this agent was closed", "make another one"));
  if (home_.is_inherited())
    raise(error(Code::not_ready, "this agent belongs to the process that this one was forked from",
                "make another one here, or start processes with 'spawn'"));
}

void bind_agent(py::module_& module) {
  module.def("backend_types", &backend_types, "Every backend of this build, as dicts.");
  module.def("settings", &settings, "What the environment and the configuration file say.");
  AgentClass type(module, "Agent", "One end of transfers.");
  bind_life(type);
  bind_registering(type);
  bind_peers(type);
  bind_moving(type);
  bind_messages(type);
  bind_progress(type);
  bind_exchange(type);
  bind_nixl_backends(type);
}

}  // namespace towpath::python
