// The composition root: the one place that knows all built-in backends, and brings together what
// the rest of the house is handed: registry, clock, log, agent, and a thread that keeps the agent
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
#include <towpath/standard/gpus.h>
#include <towpath/standard/telemetry.h>
#include <towpath/sys/clock.h>
#include <towpath/telemetry/log.h>

namespace towpath::run {
class Worker;
}

namespace towpath::standard {

class StderrSink;

/// All built-in backends, and the names under which NIXL's users know them ("POSIX"). Memory of
/// `devices` is moved by those that can, and staged by the others.
backend::Registry make_registry(const device::DriverSource& devices = gpus());

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
