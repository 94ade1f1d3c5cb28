// CudaDriver: NVIDIA's GPUs, through libcuda.so.1.
//
// The library is opened when this is, and never linked. A process must not fork after that and use
// the driver in the child: the driver forbids it.
// Thread: any.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <towpath/device/driver.h>
#include <towpath/run/mutex.h>

namespace towpath::device {

namespace cuda {
class CudaLibrary;
class CudaDevice;
}  // namespace cuda

struct CudaDriverOptions {
  std::string library = "libcuda.so.1";
  std::string sys = "/sys";  ///< where the kernel reports which NUMA node a GPU is near
};

class CudaDriver final : public Driver {
 public:
  /// Errors: unsupported (no driver, no GPU: the message says what is missing and how to get it),
  /// unavailable, denied.
  static Result<std::unique_ptr<CudaDriver>> open(const CudaDriverOptions& options = {});
  ~CudaDriver() override;

  const DriverInfo& info() const noexcept override { return info_; }
  Result<unsigned> device_count() const override;
  Result<DeviceInfo> describe(unsigned ordinal) const override;
  Result<std::shared_ptr<Device>> open(unsigned ordinal) override;
  Result<PointerFacts> facts_of(std::uint64_t address) const override;
  /// Whether the memory of a GPU can be given to other drivers, such as a network card's, as
  /// dma-buf. Errors: unsupported (the driver is too old to support it), the driver's.
  Result<bool> exports_dma_buf(unsigned ordinal) const;

 private:
  CudaDriver(std::shared_ptr<const cuda::CudaLibrary> cuda, DriverInfo info, std::string sys);

  const std::shared_ptr<const cuda::CudaLibrary> cuda_;
  const DriverInfo info_;
  const std::string sys_;
  run::Mutex mutex_;
  std::vector<std::weak_ptr<cuda::CudaDevice>> devices_ TOWPATH_GUARDED_BY(mutex_);
};

}  // namespace towpath::device
