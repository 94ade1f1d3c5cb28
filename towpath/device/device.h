// Device: one GPU, ready for use: its memory, streams and events. Made by a Driver (driver.h).
//
// It holds the device's primary context, which it shares with all others in this process that use
// the GPU (a framework, say); the context lives as long as one of them. Threads need no current
// context to call this: each call sets it and puts back what was there.
// Invariants: everything that it made keeps it alive.
// Thread: any.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/device/event.h>
#include <towpath/device/memory.h>
#include <towpath/device/pool.h>
#include <towpath/device/stream.h>
#include <towpath/device/values.h>

namespace towpath::device {

/// The device is current on the thread that made this, until it dies; then what was before is.
class Current {
 public:
  Current() = default;
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  virtual ~Current() = default;
};

class Device : public std::enable_shared_from_this<Device> {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  virtual const DriverInfo& driver() const noexcept = 0;
  virtual const DeviceInfo& info() const noexcept = 0;
  virtual Result<MemoryFigures> figures() const = 0;
  /// For code of the user's that needs the device current: kernels, libraries.
  virtual Result<std::unique_ptr<Current>> make_current() = 0;

  /// Memory of the device; its bytes are what the last user left.
  /// Errors: invalid_argument (size 0), exhausted.
  virtual Result<Memory> allocate(std::uint64_t size_bytes) = 0;
  /// Host memory that all devices of the driver reach directly. Errors: as above.
  virtual Result<Memory> allocate_pinned(std::uint64_t size_bytes) = 0;
  /// Makes host memory such. It must stay mapped until it is released.
  /// Errors: invalid_argument (empty), already_exists (part of it is registered), denied.
  virtual Result<Memory> register_host(ByteSpan bytes) = 0;

  virtual Result<std::shared_ptr<Stream>> create_stream() = 0;
  /// Errors: invalid_argument (timed and interprocess).
  virtual Result<std::shared_ptr<Event>> create_event(const EventOptions& options = {}) = 0;
  /// Errors: unsupported (the device has none).
  virtual Result<std::shared_ptr<Pool>> create_pool(const PoolOptions& options = {}) = 0;

  /// Whether its streams copy boxes; the kernel is loaded when this is first asked.
  /// Errors: unsupported (not_built, or the driver does not take it), exhausted.
  virtual Status has_box_kernel() = 0;
  /// Returns when the bytes are in place.
  virtual Status copy(const Copy& what) = 0;

  virtual Result<bool> can_reach(const Device& peer) const = 0;
  /// Lets this device reach the peer's memory. Idempotent. Errors: unsupported (it cannot).
  virtual Status enable_peer(const Device& peer) = 0;

  /// For other processes; of memory that allocate() gave. Errors: invalid_argument, unsupported.
  virtual Result<IpcHandle> export_memory(const Memory& memory) = 0;
  /// The same for memory that somebody else in this process allocated on the device, by an address
  /// in it. Errors: invalid_argument (no such memory, or of a kind that is not exported: of pools).
  virtual Result<ExportedMemory> export_at(std::uint64_t address) = 0;
  /// Maps another process's memory. The other keeps it until this is released.
  /// Errors: invalid_argument (no such handle, of this process, or of less), not_found,
  /// unsupported.
  virtual Result<Memory> import_memory(const IpcHandle& handle, std::uint64_t size_bytes) = 0;
  /// Of an event made for that. Errors: as above.
  virtual Result<IpcHandle> export_event(const Event& event) = 0;
  virtual Result<std::shared_ptr<Event>> import_event(const IpcHandle& handle) = 0;

 private:
  friend class Memory;
  /// What Memory::release() does.
  virtual Status give_back(const MemoryFacts& facts) = 0;
};

inline Status Memory::release() {
  if (device_ == nullptr) return {};
  TOWPATH_TRY(device_->give_back(facts_));
  facts_ = {};
  device_.reset();
  return {};
}

}  // namespace towpath::device
