#include "tools/bench/machine.h"

#include <towpath/device/host/host_driver.h>
#include <towpath/standard/standard.h>
#include <towpath/sys/clock.h>

namespace towpath::tools::bench {
namespace {

/// Plays a GPU. Lives as long as anybody holds its driver.
struct HostMachine {
  sys::SystemClock clock;
  device::HostDriver driver{clock, {.memory_bytes = std::uint64_t{1} << 36U}};
};

device::DriverSource devices_of(const Options& options) {
  if (options.device != "host") return standard::gpus();
  const auto machine = std::make_shared<HostMachine>();
  return {.open = [machine]() -> Result<std::shared_ptr<device::Driver>> {
    return std::shared_ptr<device::Driver>(machine, &machine->driver);
  }};
}

}  // namespace

Machine::Machine(const Options& options)
    : devices(devices_of(options)), registry(standard::make_registry(devices)) {}

Result<std::shared_ptr<device::Device>> Machine::first_device() const {
  TOWPATH_TRY(const auto driver, devices.open());
  TOWPATH_TRY(auto device, driver->open(0));
  return device;
}

}  // namespace towpath::tools::bench
