// shm, held to the contract: with both paths and their choice left to it, and with
// process_vm_readv/writev for all memory, long copies by two threads.
#include <towpath/backend/conformance/candidate.h>
#include <towpath/backends/shm/shm_backend.h>
#include <towpath/core/check.h>

namespace towpath::backend::conformance {
namespace {

Registry registry_with_shm() {
  Registry registry;
  TOWPATH_CHECK(registry.add(backends::shm::shm_type()).ok(), "an empty registry refuses nothing");
  return registry;
}

}  // namespace

std::vector<Candidate> candidates() {
  Candidate shm{.name = "shm",
                .make_registry = registry_with_shm,
                .backends = {{"shm", {}}},
                .pairings = {{Store::system, Store::shared, false},
                             {Store::shared, Store::shared, false},
                             {Store::shared, Store::system, false},
                             {Store::system, Store::system, false},
                             {Store::system, Store::shared, true}},
                .unavailable = {},
                .no_processes = {},
                .no_messages = {}};
  Candidate process_vm = shm;
  process_vm.name = "shm-process_vm";
  process_vm.backends = {{"shm", {{"paths", "process_vm"}, {"copy_threads", "2"}}}};
  process_vm.pairings = {{Store::shared, Store::shared, false}};
  return {std::move(shm), std::move(process_vm)};
}

}  // namespace towpath::backend::conformance
