#include "tools/bench/near_memory.h"

#include <towpath/core/text.h>
#include <towpath/device/host/host_driver.h>
#include <towpath/memory/device_region.h>
#include <towpath/memory/pinned_region.h>
#include <towpath/memory/shared_region.h>
#include <towpath/sys/clock.h>

namespace towpath::tools::bench {
namespace {

/// Plays a GPU. Lives as long as anybody holds its driver.
struct HostMachine {
  sys::SystemClock clock;
  device::HostDriver driver{clock, {.memory_bytes = std::uint64_t{1} << 36U}};
};

Result<std::shared_ptr<device::Device>> first_device(const Options& options) {
  TOWPATH_TRY(const auto driver, devices_of(options).open());
  TOWPATH_TRY(auto device, driver->open(0));
  return device;
}

}  // namespace

staging::Devices devices_of(const Options& options) {
  if (options.device != "host") return standard::gpus();
  const auto machine = std::make_shared<HostMachine>();
  return {.open = [machine]() -> Result<std::shared_ptr<device::Driver>> {
    return std::shared_ptr<device::Driver>(machine, &machine->driver);
  }};
}

Result<NearMemory> NearMemory::make(const Options& options, std::uint64_t bytes) {
  NearMemory made;
  if (options.local == MemoryKind::system) {
    TOWPATH_TRY(made.region_,
                memory::SharedMemoryRegion::create({.name = "towpath-bench", .size_bytes = bytes}));
    made.window_ = bytes_at(made.begin().address, bytes);
    return made;
  }
  TOWPATH_TRY(auto device, first_device(options));
  if (!device->driver().is_gpu) made.remark_ = "no GPU: host memory plays the device; ";
  if (options.local == MemoryKind::pinned) {
    TOWPATH_TRY(made.region_, memory::PinnedRegion::allocate(std::move(device), bytes));
    made.window_ = bytes_at(made.begin().address, bytes);
    return made;
  }
  TOWPATH_TRY(made.region_, memory::DeviceRegion::allocate(device, bytes));
  made.device_ = std::move(device);
  made.own_window_.resize(bytes);
  made.window_ = made.own_window_;
  return made;
}

Status NearMemory::push(std::uint64_t bytes) {
  if (device_ == nullptr) return {};
  return device_->copy({begin().address, address_of(window_.data()), bytes});
}

Status NearMemory::fill(std::uint64_t bytes, std::uint64_t seed) {
  bench::fill(window_.first(bytes), seed);
  return push(bytes);
}

Status NearMemory::poison(std::uint64_t bytes) {
  bench::poison(window_.first(bytes));
  return push(bytes);
}

Result<std::optional<std::uint64_t>> NearMemory::first_wrong(const Blocks& blocks) {
  if (device_ != nullptr) {
    TOWPATH_TRY(device_->copy({address_of(window_.data()), begin().address, window_.size()}));
  }
  return bench::first_wrong(window_, blocks);
}

}  // namespace towpath::tools::bench
