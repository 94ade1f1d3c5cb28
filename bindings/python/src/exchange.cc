#include "bindings/python/src/exchange.h"

#include <optional>
#include <type_traits>
#include <utility>

#include <pybind11/stl.h>

#include <towpath/core/format.h>
#include <towpath/net/address.h>
#include <towpath/standard/metadata_exchange.h>
#include <towpath/standard/rendezvous_url.h>

#include "bindings/python/src/descriptors.h"

namespace towpath::python {
namespace {

using standard::ExchangeOutcome;
using standard::MetadataExchange;

MetadataExchange::Address to_address(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  return unwrap(net::parse_address(*text));
}

struct Wanted {
  std::optional<std::string> listen;
  std::optional<std::string> store;
  std::optional<Blob> token;
  std::optional<double> timeout;
};

Result<std::unique_ptr<MetadataExchange>> open(standard::Node& node, const Wanted& wanted,
                                               standard::MetadataExchangeOptions options) {
  options.agent = &node.agent();
  options.clock = &node.clock();
  if (standard::Telemetry* const telemetry = node.telemetry())
    options.metrics = &telemetry->metrics();
  if (wanted.store) {
    TOWPATH_TRY(options.store, standard::open_rendezvous(*wanted.store, node.clock()));
  }
  TOWPATH_TRY(auto exchange, MetadataExchange::open(std::move(options)));
  TOWPATH_TRY(exchange->start_thread());
  return exchange;
}

/// Null: none.
MetadataExchange* exchange_of(Home& home) {
  run::MutexLock lock(home.exchange_mutex);
  return home.exchange.get();
}

void exchange_metadata(PyAgent& self, const Wanted& wanted) {
  standard::MetadataExchangeOptions options{.listen = to_address(wanted.listen)};
  if (wanted.token)
    options.security.token = unwrap(net::Token::from_text(as_text(wanted.token->value)));
  if (wanted.timeout) options.timeout = to_duration(wanted.timeout);
  check(self.in_home([&](Home& home) -> Status {
    if (exchange_of(home) != nullptr)
      return error(Code::already_exists, "this agent exchanges metadata already",
                   "say where it listens and where the store is in one call");
    TOWPATH_TRY(auto exchange, open(*home.node, wanted, std::move(options)));
    run::MutexLock lock(home.exchange_mutex);
    // Another thread may have been faster, and then ours goes.
    if (!home.exchange) home.exchange = std::move(exchange);
    return {};
  }));
}

template <typename Work>
auto with_exchange(const PyAgent& self, Work&& work) {
  using Answer = std::invoke_result_t<Work&, MetadataExchange&>;
  auto answer = self.in_home([&](Home& home) -> std::optional<Answer> {
    MetadataExchange* const exchange = exchange_of(home);
    if (exchange == nullptr) return std::nullopt;
    return std::optional<Answer>(std::in_place, work(*exchange));
  });
  if (!answer)
    raise(error(Code::not_ready, "this agent exchanges no metadata",
                "call exchange_metadata() first, or carry the metadata yourself"));
  return *std::move(answer);
}

void send(const PyAgent& self, const std::optional<std::string>& to, const py::object& only,
          bool connection_info, const Name& label) {
  const auto list = only.is_none() ? nullptr : to_list(only);
  const standard::MetadataPart part{
      .only = list.get(), .connection_info = connection_info, .label = label.value};
  const MetadataExchange::Address address = to_address(to);
  check(with_exchange(self,
                      [&](MetadataExchange& exchange) { return exchange.send(part, address); }));
}

void fetch(const PyAgent& self, const Name& name, const std::optional<std::string>& at,
           const Name& label) {
  const MetadataExchange::Address address = to_address(at);
  const rendezvous::MetadataName metadata(name.value, label.value);
  check(with_exchange(
      self, [&](MetadataExchange& exchange) { return exchange.fetch(metadata, address); }));
}

void withdraw(const PyAgent& self, const std::optional<std::string>& at) {
  const MetadataExchange::Address address = to_address(at);
  check(with_exchange(self,
                      [&](MetadataExchange& exchange) { return exchange.invalidate(address); }));
}

py::list outcomes(const PyAgent& self) {
  py::list out;
  for (const ExchangeOutcome& outcome :
       with_exchange(self, [](MetadataExchange& exchange) { return exchange.take_outcomes(); }))
    out.append(py::dict(
        py::arg("what") = std::string(standard::name_of(outcome.what)),
        py::arg("agent") = Name{outcome.name.agent}, py::arg("label") = Name{outcome.name.label},
        py::arg("place") = outcome.place, py::arg("error") = exception_of(outcome.status)));
  return out;
}

py::dict standing(const PyAgent& self) {
  const auto now =
      with_exchange(self, [](const MetadataExchange& exchange) { return exchange.standing(); });
  return py::dict(py::arg("pending") = now.pending, py::arg("error") = exception_of(now.trouble));
}

std::optional<std::string> listening_at(const PyAgent& self) {
  const auto address =
      with_exchange(self, [](const MetadataExchange& exchange) { return exchange.listening_at(); });
  if (!address) return std::nullopt;
  return net::to_string(*address);
}

}  // namespace

void bind_exchange(py::class_<PyAgent>& type) {
  type.def(
          "exchange_metadata",
          [](PyAgent& self, std::optional<std::string> listen, std::optional<std::string> store,
             std::optional<Blob> token, std::optional<double> timeout) {
            exchange_metadata(self,
                              {std::move(listen), std::move(store), std::move(token), timeout});
          },
          "Begins to exchange metadata: listens at an address, and with a store (a URL), or "
          "neither.",
          py::kw_only(), py::arg("listen") = py::none(), py::arg("store") = py::none(),
          py::arg("token") = py::none(), py::arg("timeout") = py::none())
      .def_property_readonly("listening_at", &listening_at)
      .def_property_readonly(
          "store_standing", &standing,
          "Metadata that the store does not have yet, and what keeps it from us.")
      .def("send_metadata", &send, "Brings the metadata to an address; None: to the store.",
           py::arg("to") = py::none(), py::kw_only(), py::arg("only") = py::none(),
           py::arg("connection_info") = true, py::arg("label") = Name())
      .def("fetch_metadata", &fetch, "Asks for a peer's metadata and loads it when it comes.",
           py::arg("name"), py::arg("at") = py::none(), py::kw_only(), py::arg("label") = Name())
      .def("withdraw_metadata", &withdraw, py::arg("at") = py::none())
      .def("metadata_outcomes", &outcomes, "What came of the calls above, each reported once.");
}

}  // namespace towpath::python
