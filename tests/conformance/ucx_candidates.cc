// ucx, held to the contract: over TCP, as between machines; and with device memory on both sides,
// staged here and moved by its owner there. The device is host memory that plays one.
#include <towpath/backend/conformance/candidate.h>
#include <towpath/backends/messages/message_backend.h>
#include <towpath/core/check.h>
#include <towpath/device/host/host_driver.h>
#include <towpath/staging/staged_backend.h>
#include <towpath/sys/clock.h>

namespace towpath::backend::conformance {
namespace {

Registry registry_with_ucx() {
  Registry registry;
  TOWPATH_CHECK(registry.add(backends::messages::ucx_type()).ok(),
                "an empty registry refuses nothing");
  return registry;
}

struct Machine {
  sys::SystemClock clock;
  device::HostDriver driver{clock};
};

Registry registry_with_devices() {
  Registry registry;
  const auto machine = std::make_shared<Machine>();
  const device::DriverSource devices{
      .open = [machine]() -> Result<std::shared_ptr<device::Driver>> {
        return std::shared_ptr<device::Driver>(machine, &machine->driver);
      }};
  const Status added =
      registry.add(staging::staged(backends::messages::ucx_type(devices), devices));
  TOWPATH_CHECK(added.ok(), "an empty registry refuses nothing");
  return registry;
}

std::string why_unavailable() {
  const Finding found = backends::messages::ucx_type().probe({}).front();
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
  Candidate devices = tcp;
  devices.name = "ucx-tcp-devices";
  devices.make_registry = registry_with_devices;
  devices.backends.front().params.merge(Params{{"staging_slots", "3"}, {"staging_bytes", "64K"}});
  devices.pairings = {{Store::device, Store::device, false}};
  devices.no_processes = "the suite's peers in other processes have host memory only";
  return {std::move(tcp), std::move(devices)};
}

}  // namespace towpath::backend::conformance
