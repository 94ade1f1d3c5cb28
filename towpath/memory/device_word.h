// DeviceWord: a word in a device's own memory that this process writes: how a kernel that polls it
// is notified of bytes that have landed, without a look across the bus.
//
// A stream of its own writes it, in the order in which values were given. Invariant: who sees a
// value sees all bytes that were in place when it was given. Dying, it first waits for its writes.
// Thread: any.
#pragma once

#include <cstdint>
#include <memory>

#include <towpath/core/result.h>
#include <towpath/memory/device_region.h>

namespace towpath::memory {

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
