// The composition root: the one place that knows all built-in backends, and brings together what
// the other modules are handed: registry, clock, log, agent, and a thread that keeps the agent
// moving.
//
//   TOWPATH_TRY(auto node, standard::Node::open({.name = "decode-0",
//                                                .backends = {"shm", "posix"}}));
//   TOWPATH_TRY(auto pool, node->agent().register_region(region));
//
// Thread: any, as the parts say.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/backend/registry.h>
#include <towpath/core/result.h>
#include <towpath/standard/gpus.h>
#include <towpath/standard/telemetry.h>
#include <towpath/sys/clock.h>
#include <towpath/telemetry/log.h>

namespace towpath::run {
class Worker;
}

namespace towpath::standard {

class StderrSink;
struct Settings;

/// All built-in backends, and the names under which NIXL's users know them ("POSIX"). Memory of
/// `devices` is moved by those that can, and staged by the others.
backend::Registry make_registry(const device::DriverSource& devices = gpus());

/// A backend from outside: a file libtowpath_backend_NAME.so with the C interface of plugin_abi.h,
/// which runs in this process and is trusted as this process is.
struct PluginFound {
  std::string file;
  std::string name;  ///< of its backend type; empty when it could not be loaded
  /// ok, or why it is not in the registry: it cannot be loaded, offers no towpath_backend_v1(), is
  /// for another version, or its name is taken.
  Status status;
};

/// Adds the backend types of all plug-ins in `directory`, in the order of their file names. Nothing
/// else is searched: no default directory, no loader path. Errors: not_found, denied (the
/// directory).
Result<std::vector<PluginFound>> load_plugins(const std::string& directory,
                                              backend::Registry& registry);

/// make_registry(), and the plug-ins of the directory that `settings` name. One that cannot be used
/// is no reason to do without the others: `log` reports it.
backend::Registry make_registry(const Settings& settings, const telemetry::Log& log);

struct NodeOptions {
  std::string name;
  std::vector<std::string> backends;    ///< created in this order
  telemetry::EventSink* log = nullptr;  ///< null: warnings to standard error
  bool progress_thread = true;          ///< else call agent().progress() or wait yourself
  Duration default_timeout = std::chrono::seconds(30);
  /// Shared with other nodes of the process, so that they reach one another over backends that stay
  /// within it; null: make_registry() of its own. Must outlive the node.
  const backend::Registry* registry = nullptr;
  /// What is counted, and for whom; its `agent` is this node's name. Nothing: nothing is counted.
  std::optional<TelemetryOptions> telemetry;
};

/// An agent with everything that it is given.
class Node {
 public:
  /// Errors: the agent's, the backends'.
  static Result<std::unique_ptr<Node>> open(const NodeOptions& options);
  ~Node();

  agent::Agent& agent() noexcept { return *agent_; }
  const Clock& clock() const noexcept { return clock_; }
  /// Null when nothing is counted.
  Telemetry* telemetry() noexcept { return telemetry_.get(); }

 private:
  Node();

  sys::SystemClock clock_;
  const std::unique_ptr<StderrSink> stderr_sink_;
  backend::Registry registry_;
  std::unique_ptr<Telemetry> telemetry_;
  std::unique_ptr<agent::Agent> agent_;
  std::unique_ptr<run::Worker> worker_;  // dies first: it drives the agent
};

}  // namespace towpath::standard
