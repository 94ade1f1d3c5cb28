// Driver: the way to the GPUs of one maker.
//
// Each maker's is one more implementation: CudaDriver (cuda/cuda_driver.h), and HostDriver
// (host/host_driver.h), which is used instead where there is no GPU. All pass one conformance
// suite. Invariants: all devices of a driver share one space of addresses with the host. Thread:
// any.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <towpath/core/result.h>
#include <towpath/device/device.h>
#include <towpath/device/values.h>

namespace towpath::device {

class Driver {
 public:
  Driver() = default;
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  virtual ~Driver() = default;

  virtual const DriverInfo& info() const noexcept = 0;
  /// 0 is an answer, not an error.
  virtual Result<unsigned> device_count() const = 0;
  /// Without opening it. Errors: out_of_range (no such device).
  virtual Result<DeviceInfo> describe(unsigned ordinal) const = 0;
  /// The same device each time while anybody holds it. Errors: as above; the driver's.
  virtual Result<std::shared_ptr<Device>> open(unsigned ordinal) = 0;
  /// An address that the driver has never heard of is system memory.
  virtual Result<PointerFacts> facts_of(std::uint64_t address) const = 0;
};

/// How others come to a driver, once they need one.
struct DriverSource {
  /// Cheap. Where there is no driver, nothing is made ready for one.
  std::function<bool()> may_exist = [] { return true; };
  std::function<Result<std::shared_ptr<Driver>>()> open;
};

}  // namespace towpath::device
