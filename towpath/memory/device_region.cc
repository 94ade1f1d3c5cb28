#include <towpath/core/format.h>
#include <towpath/memory/device_region.h>

namespace towpath::memory {

Result<std::shared_ptr<DeviceRegion>> DeviceRegion::allocate(SharedDevice device,
                                                             std::uint64_t size_bytes) {
  if (device == nullptr || size_bytes == 0)
    return error(Code::invalid_argument,
                 cat("cannot allocate ", size_bytes, " bytes of device memory on ",
                     device == nullptr ? "no device" : "a device"),
                 "open a device of a driver (device/driver.h), and ask for at least 1 byte");
  auto memory = device->allocate(size_bytes);
  if (memory.ok()) return std::make_shared<DeviceRegion>(Private{}, *std::move(memory));
  return error(memory.code(),
               cat("cannot allocate ", size_bytes, " bytes of device memory on ",
                   printable(device->info().name), " ", device->info().ordinal),
               std::string(memory.status().hint()))
      .because(memory.status());
}

Result<std::shared_ptr<DeviceRegion>> DeviceRegion::adopt(device::Memory memory) {
  const bool on_device = memory && (memory.origin() == device::Origin::device ||
                                    memory.origin() == device::Origin::imported);
  if (!on_device)
    return error(Code::invalid_argument, "there is no device memory to take over",
                 "pass what Device::allocate or import_memory gave");
  return std::make_shared<DeviceRegion>(Private{}, std::move(memory));
}

RegionDescriptor DeviceRegion::descriptor() const {
  return {.kind = MemoryKind::device,
          .address = memory_.address(),
          .length = memory_.size(),
          .device_id = memory_.device()->info().ordinal};
}

}  // namespace towpath::memory
