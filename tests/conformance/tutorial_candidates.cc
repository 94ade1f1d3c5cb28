// tutorial, held to the contract.
#include <towpath/backend/conformance/candidate.h>
#include <towpath/backends/tutorial/tutorial_backend.h>
#include <towpath/core/check.h>

namespace towpath::backend::conformance {

std::vector<Candidate> candidates() {
  Candidate tutorial{.name = "tutorial",
                     .make_registry =
                         [] {
                           Registry registry;
                           TOWPATH_CHECK(registry.add(backends::tutorial::tutorial_type()).ok(),
                                         "an empty registry refuses nothing");
                           return registry;
                         },
                     .backends = {{"tutorial", {}}},
                     .pairings = {{Store::system, Store::system, true}},
                     .unavailable = {},
                     .no_processes = "tutorial stays in one agent",
                     .no_messages = "tutorial moves bytes only"};
  return {std::move(tutorial)};
}

}  // namespace towpath::backend::conformance
