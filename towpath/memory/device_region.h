// DeviceRegion: memory of a GPU, or of whatever driver's device.
//
// This process cannot touch its bytes: they move by transfers, and by the device's streams.
// Invariants: it keeps its device alive. Its bytes begin as the last user left them.
// Thread: immutable.
#pragma once

#include <memory>

#include <towpath/core/result.h>
#include <towpath/device/device.h>
#include <towpath/memory/region.h>

namespace towpath::memory {

/// A device that a driver opened (device/driver.h), for those who only pass it on.
using SharedDevice = std::shared_ptr<device::Device>;

class DeviceRegion final : public Region {
  struct Private {};

 public:
  /// Errors: invalid_argument (size 0, no device), exhausted; the driver's as the cause.
  static Result<std::shared_ptr<DeviceRegion>> allocate(SharedDevice device,
                                                        std::uint64_t size_bytes);
  /// Over memory that a device gave (imported from another process, say).
  /// Errors: invalid_argument (empty, or memory of the host).
  static Result<std::shared_ptr<DeviceRegion>> adopt(device::Memory memory);

  DeviceRegion(Private, device::Memory memory) noexcept : memory_(std::move(memory)) {}

  RegionDescriptor descriptor() const override;
  const SharedDevice& device() const noexcept { return memory_.device(); }
  const device::Memory& memory() const noexcept { return memory_; }

 private:
  device::Memory memory_;
};

}  // namespace towpath::memory
