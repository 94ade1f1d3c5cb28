// DeviceRegion: memory of a GPU, or of whatever driver's device. DeviceWord: a word there.
//
// This process cannot touch its bytes: they move by transfers, and by the device's streams.
// Invariants: it keeps its device alive. Its bytes begin as the last user left them.
// Thread: immutable, but the word any.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

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

/// A word in a device's own memory that this process writes: how a kernel that polls it is notified
/// of bytes that have landed, without a look across the bus. A stream of its own writes it, in the
/// order in which values were given. Invariant: who sees a value sees all bytes that were in place
/// when it was given. Dying, it first waits for its writes. Thread: any.
class DeviceWord {
 public:
  /// `address` is a multiple of 8 in memory that the device reaches, and that outlives this. The
  /// word is 0 when this returns. Errors: invalid_argument; unsupported (a driver before CUDA 11.7,
  /// or a device that cannot); the driver's.
  static Result<DeviceWord> open(const SharedDevice& device, std::uint64_t address);

  /// Does not wait. Errors: the driver's.
  Status write(std::uint64_t value);
  /// Waits for what was given. Errors: the first of the writes'.
  Status synchronize();

 private:
  DeviceWord(std::shared_ptr<device::Stream> stream, std::uint64_t address)
      : stream_(std::move(stream)), address_(address) {}

  std::shared_ptr<device::Stream> stream_;
  std::uint64_t address_;
};

}  // namespace towpath::memory
