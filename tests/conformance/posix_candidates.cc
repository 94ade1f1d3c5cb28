// posix, held to the contract: with the engine of its choice, with threads, and beside a backend
// that carries the notifications of its transfers.
#include <towpath/backend/conformance/candidate.h>
#include <towpath/backends/loopback/loopback_backend.h>
#include <towpath/backends/posix/posix_backend.h>
#include <towpath/core/check.h>

namespace towpath::backend::conformance {
namespace {

Registry registry_with_posix() {
  Registry registry;
  TOWPATH_CHECK(registry.add(backends::posix::posix_type()).ok(), "two names clash");
  TOWPATH_CHECK(registry.add(backends::loopback::loopback_type()).ok(), "two names clash");
  return registry;
}

}  // namespace

std::vector<Candidate> candidates() {
  Candidate posix{
      .name = "posix",
      .make_registry = registry_with_posix,
      .backends = {{"posix", {}}},
      .pairings = {{Store::system, Store::disk, true}, {Store::shared, Store::disk, true}},
      .unavailable = {},
      .no_processes = "files are those of the agent itself",
      .no_messages = "posix carries none"};
  Candidate threads = posix;
  threads.name = "posix-threads";
  threads.backends = {{"posix", {{"engine", "threads"}}}};
  threads.pairings = {{Store::system, Store::disk, true}};
  Candidate with_loopback = posix;
  with_loopback.name = "posix+loopback";
  with_loopback.backends = {{"posix", {}}, {"loopback", {}}};
  with_loopback.pairings = {{Store::system, Store::disk, true}};
  with_loopback.no_messages = {};
  return {std::move(posix), std::move(threads), std::move(with_loopback)};
}

}  // namespace towpath::backend::conformance
