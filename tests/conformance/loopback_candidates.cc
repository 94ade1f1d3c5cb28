// loopback, held to the contract.
#include <towpath/backend/conformance/candidate.h>
#include <towpath/backends/loopback/loopback_backend.h>
#include <towpath/core/check.h>

namespace towpath::backend::conformance {

std::vector<Candidate> candidates() {
  Candidate loopback{.name = "loopback",
                     .make_registry =
                         [] {
                           Registry registry;
                           TOWPATH_CHECK(registry.add(backends::loopback::loopback_type()).ok(),
                                         "an empty registry refuses nothing");
                           return registry;
                         },
                     .backends = {{"loopback", {}}},
                     .pairings = {{Store::system, Store::system, false},
                                  {Store::system, Store::shared, false},
                                  {Store::system, Store::system, true}},
                     .unavailable = {},
                     .no_processes = "loopback stays in one process",
                     .no_messages = {}};
  return {std::move(loopback)};
}

}  // namespace towpath::backend::conformance
