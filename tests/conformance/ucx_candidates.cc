// ucx, held to the contract: over TCP, as between machines.
#include <towpath/backend/conformance/candidate.h>
#include <towpath/backends/ucx/ucx_backend.h>
#include <towpath/core/check.h>

namespace towpath::backend::conformance {
namespace {

Registry registry_with_ucx() {
  Registry registry;
  TOWPATH_CHECK(registry.add(backends::ucx::ucx_type()).ok(), "an empty registry refuses nothing");
  return registry;
}

std::string why_unavailable() {
  const Finding found = backends::ucx::ucx_type().probe({}).front();
  return found.verdict == Verdict::yes ? "" : found.reason + "; " + found.remedy;
}

}  // namespace

std::vector<Candidate> candidates() {
  Candidate tcp{.name = "ucx-tcp",
                .make_registry = registry_with_ucx,
                .backends = {{"ucx", {{"transports", "tcp"}}}},
                .pairings = {{Store::system, Store::system, false},
                             {Store::system, Store::shared, false},
                             {Store::system, Store::system, true}},
                .unavailable = why_unavailable(),
                .no_processes = {},
                .no_messages = {}};
  return {std::move(tcp)};
}

}  // namespace towpath::backend::conformance
