// HostDevice: a device of the host driver. Private to this folder.
// Thread: any.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <towpath/core/clock.h>
#include <towpath/device/device.h>
#include <towpath/run/mutex.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/mapping.h>

namespace towpath::device {

class HostDevice final : public Device {
 public:
  HostDevice(DriverInfo driver, DeviceInfo info, const Clock& clock)
      : driver_(std::move(driver)), info_(std::move(info)), clock_(clock) {}

  const DriverInfo& driver() const noexcept override { return driver_; }
  const DeviceInfo& info() const noexcept override { return info_; }
  Result<MemoryFigures> figures() const override;
  Result<std::unique_ptr<Current>> make_current() override;

  Result<Memory> allocate(std::uint64_t size_bytes) override;
  Result<Memory> allocate_pinned(std::uint64_t size_bytes) override;
  Result<Memory> register_host(ByteSpan bytes) override;

  Result<std::shared_ptr<Stream>> create_stream() override;
  Result<std::shared_ptr<Event>> create_event(const EventOptions& options) override;
  Result<std::shared_ptr<Pool>> create_pool(const PoolOptions& options) override;

  Status has_box_kernel() override { return {}; }
  Status copy(const Copy& what) override;
  Result<bool> can_reach(const Device& peer) const override;
  Status enable_peer(const Device& peer) override;

  Result<IpcHandle> export_memory(const Memory& memory) override;
  Result<ExportedMemory> export_at(std::uint64_t address) override;
  Result<Memory> import_memory(const IpcHandle& handle, std::uint64_t size_bytes) override;
  Result<IpcHandle> export_event(const Event& event) override;
  Result<std::shared_ptr<Event>> import_event(const IpcHandle& handle) override;

  /// What this device knows of an address, if anything.
  std::optional<PointerFacts> facts_of(std::uint64_t address) const;

 private:
  struct Held {
    Origin origin = Origin::device;
    std::uint64_t size_bytes = 0;
    sys::Fd fd;            // of device memory
    sys::Mapping mapping;  // none for registered memory, which is somebody else's
  };

  Status give_back(const MemoryFacts& facts) override;
  Status reserve(std::uint64_t size_bytes);
  Memory hold(std::uint64_t address, Held held);
  Status check_not_registered(ByteSpan bytes) const TOWPATH_REQUIRES(mutex_);
  Memory memory_at(std::uint64_t address, Origin origin, std::uint64_t size_bytes);

  const DriverInfo driver_;
  const DeviceInfo info_;
  const Clock& clock_;
  mutable run::Mutex mutex_;
  std::map<std::uint64_t, Held> held_ TOWPATH_GUARDED_BY(mutex_);  // by address
  std::uint64_t used_bytes_ TOWPATH_GUARDED_BY(mutex_) = 0;        // of device memory
};

}  // namespace towpath::device
