#include "bindings/nixl/nixl_agent.h"

#include <towpath/core/format.h>
#include <towpath/rendezvous/etcd_rendezvous.h>
#include <towpath/standard/metadata_security.h>
#include <towpath/standard/settings.h>
#include <towpath/standard/standard.h>
#include <towpath/sys/text_file.h>

#include "bindings/nixl/vocabulary.h"

namespace towpath::nixl {
namespace {

using telemetry::Level;

Result<std::string> read_secret(const std::string& path) {
  TOWPATH_TRY(const std::string text, sys::read_text_file(path));
  return std::string(sys::trimmed(text));
}

Result<std::unique_ptr<rendezvous::Rendezvous>> open_store(const standard::Settings& settings,
                                                           const Clock& clock,
                                                           const telemetry::Log& log) {
  rendezvous::EtcdOptions options;
  options.client.endpoints = settings.etcd_endpoints;
  options.client.login.user = settings.etcd_user;
  if (settings.etcd_password_file) {
    TOWPATH_TRY(options.client.login.password, read_secret(*settings.etcd_password_file));
  }
  options.client.tls = {.authority_file = settings.etcd_ca_file,
                        .certificate_file = settings.etcd_cert_file,
                        .key_file = settings.etcd_key_file};
  options.name_space = settings.etcd_namespace;
  TOWPATH_TRY(options.token,
              standard::etcd_token(settings.token_file, settings.etcd_endpoints,
                                   standard::shared_token_file(standard::read_environment())));
  options.log = log;
  TOWPATH_TRY(std::unique_ptr<rendezvous::Rendezvous> store,
              rendezvous::EtcdRendezvous::open(std::move(options), clock));
  return store;
}

}  // namespace

NixlAgent::NixlAgent(const AgentOptions& options, const standard::Settings& settings)
    : settings_(settings),
      sink_(settings_),
      log_(sink_, clock_, cat("nixl agent ", printable(options.name))),
      registry_(standard::make_registry(settings_, log_)) {}

Result<std::unique_ptr<NixlAgent>> NixlAgent::open(AgentOptions options) {
  const auto reported = standard::configure(options.environment);
  std::unique_ptr<NixlAgent> nixl(
      new NixlAgent(options, reported.ok() ? reported->settings : standard::Settings()));
  Status started = reported.ok() ? nixl->start(options, *reported) : reported.status();
  if (started.ok()) return nixl;
  nixl->report(started, "make the agent");
  return started;
}

Status NixlAgent::start(const AgentOptions& options, const standard::Configuration& reported) {
  reported.warn(log_, options.capture_telemetry);
  backends_ = std::make_unique<nixl::NixlBackends>(registry_, reported.environment, log_);
  const auto telemetry = reported.telemetry.decide(options.capture_telemetry);
  captures_telemetry_ = telemetry.has_value();
  TOWPATH_TRY(node_, standard::Node::open({.name = options.name,
                                           .backends = {},
                                           .log = &sink_,
                                           .progress_thread = options.progress_thread,
                                           .default_timeout = settings_.transfer_timeout.value_or(
                                               standard::kNixlTransferTimeout),
                                           .registry = &registry_,
                                           .telemetry = telemetry}));
  if (!options.listens) return {};
  const run::MutexLock lock(mutex_);
  TOWPATH_TRY(open_exchange(net::TcpAddress{settings_.listen_host, options.listen_port}));
  const auto where = exchange_->listening_at();
  log_.info("listens", {{"at", where ? net::to_string(*where) : "no address"}});
  return {};
}

// ---- metadata over the network ----

Status NixlAgent::open_exchange(std::optional<net::Address> listen) {
  standard::MetadataExchangeOptions options{.agent = &agent(), .clock = &clock_};
  options.listen = std::move(listen);
  options.log = log_.named("metadata exchange");
  if (standard::Telemetry* const telemetry = node_->telemetry())
    options.metrics = &telemetry->metrics();
  options.security.certificates = {.certificate_file = settings_.tls_cert_file,
                                   .key_file = settings_.tls_key_file,
                                   .authority_file = settings_.tls_ca_file};
  if (settings_.token_file) {
    TOWPATH_TRY(options.security.token, standard::read_token(*settings_.token_file));
  }
  if (has_store()) {
    TOWPATH_TRY(options.store, open_store(settings_, clock_, options.log));
  }
  TOWPATH_TRY(std::unique_ptr<standard::MetadataExchange> made,
              standard::MetadataExchange::open(std::move(options)));
  TOWPATH_TRY(made->start_thread());
  exchange_ = std::move(made);
  return {};
}

Result<standard::MetadataExchange*> NixlAgent::exchange() {
  run::MutexLock lock(mutex_);
  if (!exchange_) TOWPATH_TRY(open_exchange(std::nullopt));
  return exchange_.get();
}

// ---- failures ----

nixl_capi_status_t NixlAgent::report(const Status& status, std::string_view doing) const {
  return say(Level::warning, status, doing);
}

nixl_capi_status_t NixlAgent::debug(const Status& status, std::string_view doing) const {
  return say(Level::debug, status, doing);
}

nixl_capi_status_t NixlAgent::say(Level level, const Status& status, std::string_view doing) const {
  if (!status.ok()) log_.say(level, cat("cannot ", doing, ": ", status.to_string()));
  return status_number(status);
}

}  // namespace towpath::nixl
