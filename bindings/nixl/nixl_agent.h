// NixlAgent: what stands behind a nixl_capi_agent_t. A node (agent, backends, progress thread) with
// the habits of NIXL's agents: registrations by value, backends by NIXL's names, failures to the
// log.
//
// Thread: any.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <towpath/compat/nixl/backends.h>
#include <towpath/run/mutex.h>
#include <towpath/standard/configuration.h>
#include <towpath/standard/metadata_exchange.h>
#include <towpath/standard/standard.h>
#include <towpath/standard/stderr_sink.h>
#include <towpath/telemetry/log.h>

#include "bindings/nixl/nixl_capi.h"
#include "bindings/nixl/registrations.h"

namespace towpath::nixl {

struct AgentOptions {
  std::string name;
  bool progress_thread = true;
  bool listens = false;
  std::uint16_t listen_port = 0;  ///< 0: any
  bool capture_telemetry = false;
  standard::Environment environment;
};

class NixlAgent {
 public:
  /// Errors, which are reported to the log too: invalid_argument (the name), exhausted,
  /// configure()'s.
  static Result<std::unique_ptr<NixlAgent>> open(AgentOptions options);

  agent::Agent& agent() noexcept { return node_->agent(); }
  Registrations& registrations() noexcept { return registrations_; }
  const telemetry::Log& log() const noexcept { return log_; }
  bool captures_telemetry() const noexcept { return captures_telemetry_; }

  // ---- metadata over the network ----
  /// Opened on first use, when the agent does not listen and has no store. Errors: as
  /// standard::MetadataExchange::open.
  Result<standard::MetadataExchange*> exchange();
  bool has_store() const noexcept { return !settings_.etcd_endpoints.empty(); }

  // ---- backends ----
  nixl::NixlBackends& backends() noexcept { return *backends_; }

  /// Moves bytes in the caller's thread; the sooner they are there.
  void help() { (void)agent().progress(); }

  /// The number for a failure, which is reported to the log.
  nixl_capi_status_t report(const Status& status, std::string_view doing) const;
  /// The same of what is asked again and again, reported to those who debug.
  nixl_capi_status_t debug(const Status& status, std::string_view doing) const;

 private:
  NixlAgent(const AgentOptions& options, const standard::Settings& settings);
  nixl_capi_status_t say(telemetry::Level level, const Status& status,
                         std::string_view doing) const;

  Status start(const AgentOptions& options, const standard::Configuration& reported);
  Status open_exchange(std::optional<net::Address> listen) TOWPATH_REQUIRES(mutex_);

  const standard::Settings settings_;
  standard::StderrSink sink_;
  bool captures_telemetry_ = false;  // set once, in open()
  const sys::SystemClock clock_;
  const telemetry::Log log_;
  const backend::Registry registry_;
  // Dies after the agent: what it holds is then let go of without a search for each.
  Registrations registrations_;
  std::unique_ptr<nixl::NixlBackends> backends_;  // set once, in open()
  std::unique_ptr<standard::Node> node_;

  mutable run::Mutex mutex_;
  std::unique_ptr<standard::MetadataExchange> exchange_ TOWPATH_GUARDED_BY(mutex_);  // dies first
};

}  // namespace towpath::nixl

struct nixl_capi_agent_s {
  std::unique_ptr<towpath::nixl::NixlAgent> nixl;

  towpath::nixl::NixlAgent* operator->() const noexcept { return nixl.get(); }
};
