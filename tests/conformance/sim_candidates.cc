// sim, held to the contract in its calm settings: once for each way to quiesce, and with messages
// that are lost and repeated.
#include <towpath/backend/conformance/candidate.h>
#include <towpath/backends/sim/sim_backend.h>
#include <towpath/core/check.h>
#include <towpath/core/format.h>
#include <towpath/sys/clock.h>

namespace towpath::backend::conformance {
namespace {

using backends::sim::Behaviour;
using backends::sim::Network;

/// A network on the real clock, which lives as long as the registry.
struct RealNetwork {
  explicit RealNetwork(const Behaviour& behaviour) : network(1, behaviour, clock) {}
  sys::SystemClock clock;
  Network network;
};

Candidate sim(const std::string& name, const Behaviour& behaviour) {
  return {.name = name,
          .make_registry =
              [behaviour] {
                auto real = std::make_shared<RealNetwork>(behaviour);
                Registry registry;
                const Status added = registry.add(
                    backends::sim::sim_type(std::shared_ptr<Network>(real, &real->network)));
                TOWPATH_CHECK(added.ok(), "an empty registry refuses nothing");
                return registry;
              },
          .backends = {{"sim", {}}},
          .pairings = {{Store::system, Store::system, false}, {Store::system, Store::system, true}},
          .unavailable = {},
          .no_processes = "a simulated network stays in one process",
          .no_messages = {}};
}

}  // namespace

std::vector<Candidate> candidates() {
  return {sim("sim", {}),
          sim("sim-bounded",
              {.quiesced = Quiescence::bounded, .quiescence_bound = std::chrono::milliseconds(2)}),
          sim("sim-teardown", {.quiesced = Quiescence::teardown}),
          sim("sim-lossy",
              {.notifications = Notifications::lossy, .dropped = 20, .repeated = 20, .torn = 20})};
}

}  // namespace towpath::backend::conformance
