#include "bindings/nixl/nixl_agent.h"

#include <algorithm>

#include <towpath/core/text.h>
#include <towpath/rendezvous/etcd_rendezvous.h>
#include <towpath/standard/nixl_names.h>
#include <towpath/standard/plugins.h>
#include <towpath/sys/text_file.h>

#include "bindings/nixl/backend_params.h"
#include "bindings/nixl/vocabulary.h"

namespace towpath::nixl {
namespace {

using telemetry::Level;

// NIXL's transfers have no deadline; ours always do. Long enough for any that is still alive.
constexpr Duration kTransferTimeout = std::chrono::minutes(5);

constexpr std::string_view kUcx = "UCX";
constexpr std::string_view kStandsInForUcx = "shm";

bool is_ucx(std::string_view name) {
  return std::ranges::equal(name, kUcx, [](char a, char b) { return (a & ~0x20) == b; });
}

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
  options.log = log;
  TOWPATH_TRY(std::unique_ptr<rendezvous::Rendezvous> store,
              rendezvous::EtcdRendezvous::open(std::move(options), clock));
  return store;
}

}  // namespace

NixlAgent::NixlAgent(const AgentOptions& options, const standard::Settings& settings)
    : settings_(settings),
      sink_(settings_.log_level.value_or(Level::warning)),
      log_(sink_, clock_, cat("nixl agent ", printable(options.name))) {}

Result<std::unique_ptr<NixlAgent>> NixlAgent::open(AgentOptions options) {
  const auto told = standard::configure(options.environment);
  std::unique_ptr<NixlAgent> nixl(
      new NixlAgent(options, told.ok() ? told->settings : standard::Settings()));
  Status started = told.ok() ? nixl->start(options, *told) : told.status();
  if (started.ok()) return nixl;
  nixl->tell(started, "make the agent");
  return started;
}

Status NixlAgent::start(const AgentOptions& options, const standard::Configuration& told) {
  told.warn(log_);
  load_plugins();
  const auto telemetry = told.telemetry.decide(options.capture_telemetry);
  captures_telemetry_ = telemetry.has_value();
  TOWPATH_TRY(node_, standard::Node::open(
                         {.name = options.name,
                          .backends = {},
                          .log = &sink_,
                          .progress_thread = options.progress_thread,
                          .default_timeout = settings_.transfer_timeout.value_or(kTransferTimeout),
                          .registry = &registry_,
                          .telemetry = telemetry}));
  if (!options.listens) return {};
  const run::MutexLock lock(mutex_);
  TOWPATH_TRY(open_exchange(net::TcpAddress{settings_.listen_host, options.listen_port}));
  const auto where = exchange_->listening_at();
  log_.info("listens", {{"at", where ? net::to_string(*where) : "no address"}});
  return {};
}

// A plug-in that cannot be used is no reason to refuse the agent, but it is told.
void NixlAgent::load_plugins() {
  if (!settings_.plugin_directory) return;
  const auto found = standard::load_plugins(*settings_.plugin_directory, registry_);
  if (!found.ok()) log_.warning("no plug-ins are loaded", {{"why", found.status().to_string()}});
  if (!found.ok()) return;
  for (const standard::PluginFound& one : *found) {
    if (one.status.ok()) continue;
    log_.warning("a plug-in is not loaded", {{"file", one.file}, {"why", one.status.to_string()}});
  }
}

// ---- metadata over the network ----

Status NixlAgent::open_exchange(std::optional<net::Address> listen) {
  standard::CardExchangeOptions options{.agent = &agent(), .clock = &clock_};
  options.listen = std::move(listen);
  options.log = log_.named("metadata exchange");
  if (standard::Telemetry* const telemetry = node_->telemetry())
    options.metrics = &telemetry->metrics();
  if (settings_.token_file) {
    TOWPATH_TRY(const std::string secret, read_secret(*settings_.token_file));
    TOWPATH_TRY(options.token, net::Token::make(secret));
  }
  if (has_store()) {
    TOWPATH_TRY(options.store, open_store(settings_, clock_, options.log));
  }
  TOWPATH_TRY(std::unique_ptr<standard::CardExchange> made,
              standard::CardExchange::open(std::move(options)));
  TOWPATH_TRY(made->start_thread());
  exchange_ = std::move(made);
  return {};
}

Result<standard::CardExchange*> NixlAgent::exchange() {
  run::MutexLock lock(mutex_);
  if (!exchange_) TOWPATH_TRY(open_exchange(std::nullopt));
  return exchange_.get();
}

// ---- backends ----

std::vector<std::string> NixlAgent::plugins() const {
  std::vector<std::string> names;
  for (const std::string& type : registry_.names())
    names.push_back(standard::nixl_backend_name(type));
  if (std::ranges::find(names, kUcx) == names.end()) names.emplace(names.begin(), kUcx);
  return names;
}

Result<const backend::BackendType*> NixlAgent::plugin(std::string_view name) const {
  auto type = registry_.find(name);
  if (type.ok() || !is_ucx(name)) return type;
  return registry_.find(kStandsInForUcx);
}

Result<std::string> NixlAgent::create_backend(std::string_view name,
                                              const backend::Params& params) {
  TOWPATH_TRY(const backend::BackendType* type, plugin(name));
  if (is_ucx(name) && !is_ucx(type->name)) {
    log_.info("this build has no UCX: shared memory stands in, for agents of this host");
  }
  const TranslatedParams translated = translate_params(*type, params);
  for (const std::string& remark : translated.remarks) log_.info(remark);
  TOWPATH_TRY(agent().add_backend(type->name, translated.params));
  run::MutexLock lock(mutex_);
  params_.emplace(type->name, with_defaults(*type, translated.params));
  return type->name;
}

Result<backend::Params> NixlAgent::params_of(const std::string& type) const {
  run::MutexLock lock(mutex_);
  const auto found = params_.find(type);
  if (found == params_.end())
    return error(Code::not_found, cat("this agent has no backend '", printable(type), "'"));
  return found->second;
}

// ---- failures ----

nixl_capi_status_t NixlAgent::tell(const Status& status, std::string_view doing) const {
  return say(Level::warning, status, doing);
}

nixl_capi_status_t NixlAgent::murmur(const Status& status, std::string_view doing) const {
  return say(Level::debug, status, doing);
}

nixl_capi_status_t NixlAgent::say(Level level, const Status& status, std::string_view doing) const {
  if (!status.ok()) log_.say(level, cat("cannot ", doing, ": ", status.to_string()));
  return status_number(status);
}

}  // namespace towpath::nixl
