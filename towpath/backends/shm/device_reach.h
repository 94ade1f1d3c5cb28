// DeviceReach: device memory of peers on this host. The owner's driver exports it, ours maps it,
// and a stream of the device copies between it and host memory of this process; each batch of
// copies is waited for, so that between calls no byte moves.
//
// The owner's bytes stay mapped here as long as somebody holds the ReachedDevice; whether they may
// still be touched is the registration table's to say, as of all of a peer's memory.
// Thread: loop.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <towpath/backend/slice_runner.h>
#include <towpath/backends/shm/handshake.h>
#include <towpath/core/descriptor.h>
#include <towpath/device/bounce.h>
#include <towpath/device/driver.h>

namespace towpath::backends::shm {

/// One allocation of a peer's device.
struct ReachedDevice {
  device::ExportedMemory what;
  device::Memory mapped;    ///< empty: it is memory of this process
  std::uint64_t begin = 0;  ///< of the allocation, for this process
  std::shared_ptr<device::CopyStream> stream;
};

/// In whose process the peer is: a driver does not map what its own process exported.
enum class Where : std::uint8_t { here, there };

class DeviceReach {
 public:
  explicit DeviceReach(device::DriverSource source) : source_(std::move(source)) {}

  /// Whether this machine may have a driver. Cheap.
  bool may_be_there() const { return source_.open && source_.may_exist(); }

  /// What peers get of memory of ours. Errors: the driver's; of memory that it does not
  /// export.
  Result<DeviceExtent> offer(const RegionDescriptor& region);
  /// `key`, which has device memory, is hostile; `region` lies within it. Each allocation is mapped
  /// once. Errors: not_found (this process does not see the device), the driver's, corrupt (of this
  /// process: `region` is not in such memory).
  Result<std::shared_ptr<ReachedDevice>> open(const ShmKey& key, const RegionDescriptor& region,
                                              Where where);
  /// Moves or fails some extents with the remote memory at the cursor. `shift` makes remote
  /// addresses those of this process.
  void move(backend::SliceTask& task, const ReachedDevice& on, std::uint64_t shift);

 private:
  struct Opened {
    std::shared_ptr<device::Device> device;
    std::shared_ptr<device::CopyStream> stream;
  };

  Result<device::Driver*> driver();
  Result<Opened*> device_of(unsigned ordinal);
  Result<unsigned> ordinal_of(const DeviceExtent& what, std::uint64_t otherwise);
  Result<std::shared_ptr<ReachedDevice>> map(const DeviceExtent& what, const Opened& on);

  const device::DriverSource source_;
  std::shared_ptr<device::Driver> driver_;
  std::map<unsigned, Opened> devices_;
  std::vector<std::weak_ptr<ReachedDevice>> reached_;
  std::vector<device::Copy> copies_;
};

}  // namespace towpath::backends::shm
