// BackendStand: one backend as an agent holds it, and driven as an agent drives it: it sleeps only
// on wait_fd(). It reaches its own memory, as a peer's. For tests only. Thread: loop.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>

#include <towpath/backend/registry.h>
#include <towpath/backend/testing/recording_events.h>
#include <towpath/sys/clock.h>
#include <towpath/telemetry/log.h>
#include <towpath/telemetry/metrics.h>

namespace towpath::backend::testing {

class BackendStand {
 public:
  /// Opens a backend of `type`, and its way to itself.
  Status open(const BackendType& type, Params params = {}) {
    Registry registry;  // it refuses unknown parameters
    TOWPATH_TRY(registry.add(type));
    TOWPATH_TRY(backend, registry.open(type.name, {.self = self,
                                                   .clock = agent_clock,
                                                   .events = &events,
                                                   .log = &log,
                                                   .metrics = &metrics,
                                                   .params = std::move(params)}));
    TOWPATH_TRY(connection, backend->connect(self, backend->connection_info()));
    return {};
  }
  /// Registers `region` and imports it from ourselves; it takes the place of the one before.
  Status use(const RegionDescriptor& region) {
    imported.reset();
    registered.reset();
    TOWPATH_TRY(registered, backend->register_memory(region));
    TOWPATH_TRY(imported, backend->import_memory(*connection, region, registered->key()));
    return {};
  }
  /// In the order that the contract asks for.
  void close() {
    imported.reset();
    registered.reset();
    local.reset();
    connection.reset();
    backend.reset();
  }

  /// Until `operation` has completed `times` times.
  void run(Operation& operation, std::size_t times = 1) {
    while (events.count(operation) < times) {
      if (backend->progress() || events.count(operation) >= times) continue;
      pollfd ready{backend->wait_fd(), POLLIN, 0};
      ASSERT_GT(::poll(&ready, 1, 20'000), 0) << "nothing woke us for 20 s";
    }
  }
  RecordedCompletion move(TransferOp op, const std::vector<Segment>& segments) {
    auto operation = backend->make_operation();
    operation->post({op, connection.get(), segments});
    run(*operation);
    auto outcome = events.last(*operation);
    events.completions.clear();
    return outcome;
  }
  RecordedCompletion read(const std::vector<Segment>& segments) {
    return move(TransferOp::read, segments);
  }
  RecordedCompletion write(const std::vector<Segment>& segments) {
    return move(TransferOp::write, segments);
  }

  /// The counters of this name that bear all of `labels`, together.
  std::uint64_t counted(std::string_view name, const telemetry::Labels& labels = {}) const {
    std::uint64_t sum = 0;
    for (const telemetry::Metric& metric : metrics.snapshot()) {
      const auto borne = [&](const auto& label) {
        return std::ranges::find(metric.labels, label) != metric.labels.end();
      };
      const auto* const value = std::get_if<std::uint64_t>(&metric.value);
      if (metric.name == name && value != nullptr && std::ranges::all_of(labels, borne))
        sum += *value;
    }
    return sum;
  }
  /// All events so far, a line each.
  std::string reported() const {
    std::string all;
    for (const auto& event : log.events()) all += telemetry::to_string(event) + "\n";
    return all;
  }

  const AgentIdentity self{"prefill-0", 7};
  sys::SystemClock clock;
  const Clock* agent_clock = &clock;  ///< what the backend believes
  telemetry::CollectingSink log;
  telemetry::Metrics metrics;
  RecordingEvents events;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Connection> connection;
  std::unique_ptr<Memory> local, registered, imported;
};

}  // namespace towpath::backend::testing
