#include <towpath/core/format.h>
#include <towpath/device/host/host_device.h>
#include <towpath/device/host/host_driver.h>

namespace towpath::device {

HostDriver::HostDriver(const Clock& clock, const HostDriverOptions& options)
    : clock_(clock),
      options_(options),
      info_{.name = "host", .version = "1.0"},
      devices_(options.devices) {}

Result<DeviceInfo> HostDriver::describe(unsigned ordinal) const {
  if (ordinal >= options_.devices)
    return error(Code::out_of_range,
                 cat("no device ", ordinal, " among the ", options_.devices, " of the host driver"),
                 "use an ordinal below the count");
  return DeviceInfo{.ordinal = ordinal,
                    .name = "host memory (no GPU)",
                    .memory_bytes = options_.memory_bytes,
                    .numa_node = options_.numa_node,
                    .has_pools = true};
}

Result<std::shared_ptr<Device>> HostDriver::open(unsigned ordinal) {
  TOWPATH_TRY(DeviceInfo info, describe(ordinal));
  const run::MutexLock lock(mutex_);
  auto device = devices_[ordinal].lock();
  if (device == nullptr) {
    device = std::make_shared<HostDevice>(info_, std::move(info), clock_);
    devices_[ordinal] = device;
  }
  return std::shared_ptr<Device>(std::move(device));
}

Result<PointerFacts> HostDriver::facts_of(std::uint64_t address) const {
  const run::MutexLock lock(mutex_);
  for (const auto& held : devices_) {
    const auto device = held.lock();
    if (device == nullptr) continue;
    if (const auto facts = device->facts_of(address)) return *facts;
  }
  return PointerFacts{};
}

}  // namespace towpath::device
