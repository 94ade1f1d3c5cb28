// HostDriver: a driver over system memory, for machines and tests without a GPU.
//
// Its devices are this process's own memory; its streams are threads that do the work in order, and
// events, pools, peers and handles between processes keep the same promises as a GPU's. It is no
// GPU and says so: DriverInfo::is_gpu is false, and the devices are named "host memory".
// Thread: any.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/device/driver.h>
#include <towpath/run/mutex.h>

namespace towpath::device {

class HostDevice;

struct HostDriverOptions {
  unsigned devices = 1;
  std::uint64_t memory_bytes = 1ull << 30;  ///< of each device; more is `exhausted`
  std::optional<unsigned> numa_node;        ///< what the devices say they are near to
};

class HostDriver final : public Driver {
 public:
  /// `clock` is what timed events read; it must outlive the driver and its devices.
  explicit HostDriver(const Clock& clock, const HostDriverOptions& options = {});

  const DriverInfo& info() const noexcept override { return info_; }
  Result<unsigned> device_count() const override { return options_.devices; }
  Result<DeviceInfo> describe(unsigned ordinal) const override;
  Result<std::shared_ptr<Device>> open(unsigned ordinal) override;
  Result<PointerFacts> facts_of(std::uint64_t address) const override;

 private:
  const Clock& clock_;
  const HostDriverOptions options_;
  const DriverInfo info_;
  mutable run::Mutex mutex_;
  std::vector<std::weak_ptr<HostDevice>> devices_ TOWPATH_GUARDED_BY(mutex_);
};

}  // namespace towpath::device
