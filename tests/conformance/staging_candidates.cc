// Device memory, staged over backends that cannot take it, held to the contract; and that of a
// peer, which shm reaches by the driver. The device is host memory that emulates one, and what a
// GPU's copies are like is not proven then; or, with --gpu, this machine's first GPU.
#include <towpath/backend/conformance/candidate.h>
#include <towpath/backend/conformance/test_memory.h>
#include <towpath/backends/loopback/loopback_backend.h>
#include <towpath/backends/posix/posix_backend.h>
#include <towpath/backends/shm/shm_backend.h>
#include <towpath/core/check.h>
#include <towpath/staging/staged_backend.h>

namespace towpath::backend::conformance {
namespace {

Registry registry_with_staging() {
  Registry registry;
  const staging::Devices devices{
      .open = []() -> Result<std::shared_ptr<device::Driver>> { return test_driver(); }};
  for (BackendType type : {backends::loopback::loopback_type(), backends::posix::posix_type(),
                           backends::shm::shm_type(devices)})
    TOWPATH_CHECK(registry.add(staging::staged(std::move(type), devices)).ok(), "two names clash");
  return registry;
}

}  // namespace

std::vector<Candidate> candidates() {
  Candidate loopback{.name = "staged-loopback",
                     .make_registry = registry_with_staging,
                     .backends = {{"loopback", {}}},
                     .pairings = {{Store::device, Store::system, false},
                                  {Store::device, Store::system, true},
                                  {Store::system, Store::system, false}},
                     .unavailable = {},
                     .no_processes = "loopback stays within a process",
                     .no_messages = {}};
  Candidate shm = loopback;
  shm.name = "staged-shm";
  shm.backends = {{"shm", {}}};
  shm.pairings = {{Store::device, Store::shared, false}};
  shm.no_processes = {};
  Candidate devices = shm;
  devices.name = "staged-shm-devices";
  devices.pairings = {{Store::device, Store::device, false}};
  devices.no_processes = "the suite's peers in other processes have host memory only";
  Candidate posix = loopback;
  posix.name = "staged-posix";
  posix.backends = {{"posix", {{"staging_slots", "3"}, {"staging_bytes", "256K"}}}};
  posix.pairings = {{Store::device, Store::disk, true}};
  posix.no_processes = "files are those of the agent itself";
  posix.no_messages = "posix carries none";
  return {std::move(loopback), std::move(shm), std::move(devices), std::move(posix)};
}

}  // namespace towpath::backend::conformance
