// Device memory, staged over backends that cannot take it, held to the contract. The device is host
// memory that plays one: what a GPU's copies are like is not proven by this.
#include <towpath/backend/conformance/candidate.h>
#include <towpath/backends/loopback/loopback_backend.h>
#include <towpath/backends/posix/posix_backend.h>
#include <towpath/backends/shm/shm_backend.h>
#include <towpath/core/check.h>
#include <towpath/device/host/host_driver.h>
#include <towpath/staging/staged_backend.h>
#include <towpath/sys/clock.h>

namespace towpath::backend::conformance {
namespace {

struct Machine {
  sys::SystemClock clock;
  device::HostDriver driver{clock};
};

Registry registry_with_staging() {
  Registry registry;
  const auto machine = std::make_shared<Machine>();
  const staging::Devices devices{.open = [machine]() -> Result<std::shared_ptr<device::Driver>> {
    return std::shared_ptr<device::Driver>(machine, &machine->driver);
  }};
  for (BackendType type : {backends::loopback::loopback_type(), backends::posix::posix_type(),
                           backends::shm::shm_type()})
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
  Candidate posix = loopback;
  posix.name = "staged-posix";
  posix.backends = {{"posix", {{"staging_slots", "3"}, {"staging_bytes", "256K"}}}};
  posix.pairings = {{Store::device, Store::disk, true}};
  posix.no_processes = "files are those of the agent itself";
  posix.no_messages = "posix carries none";
  return {std::move(loopback), std::move(shm), std::move(posix)};
}

}  // namespace towpath::backend::conformance
