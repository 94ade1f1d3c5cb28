#include "message_candidates.h"

#include <memory>
#include <utility>

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

device::DriverSource devices_of_a_machine() {
  const auto machine = std::make_shared<Machine>();
  return {.open = [machine]() -> Result<std::shared_ptr<device::Driver>> {
    return std::shared_ptr<device::Driver>(machine, &machine->driver);
  }};
}

Registry registry_with(BackendType type) {
  Registry registry;
  TOWPATH_CHECK(registry.add(std::move(type)).ok(), "an empty registry refuses nothing");
  return registry;
}

std::string why_unavailable(const BackendType& type) {
  const Finding found = type.probe({}).front();
  return found.verdict == Verdict::yes ? "" : found.reason + "; " + found.hint;
}

}  // namespace

std::vector<Candidate> message_candidates(
    const std::string& name, const std::function<BackendType(device::DriverSource)>& make_type,
    const Params& params) {
  Candidate plain{.name = name,
                  .make_registry = [make_type] { return registry_with(make_type({})); },
                  .backends = {{make_type({}).name, params}},
                  .pairings = {{Store::system, Store::system, false},
                               {Store::system, Store::shared, false},
                               {Store::system, Store::system, true}},
                  .late_bytes_where_still = std::uint64_t{128} * kKiB,
                  .unavailable = why_unavailable(make_type({})),
                  .no_processes = {},
                  .no_messages = {}};
  Candidate devices = plain;
  devices.name = name + "-devices";
  devices.make_registry = [make_type] {
    const device::DriverSource source = devices_of_a_machine();
    return registry_with(staging::staged(make_type(source), source));
  };
  devices.backends.front().params.merge(Params{{"staging_slots", "3"}, {"staging_bytes", "64K"}});
  devices.pairings = {{Store::device, Store::device, false}};
  devices.no_processes = "the suite's peers in other processes have host memory only";
  return {std::move(plain), std::move(devices)};
}

}  // namespace towpath::backend::conformance
