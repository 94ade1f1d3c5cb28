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
#include <utility>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/device/stream.h>
#include <towpath/device/values.h>

namespace towpath::device {

/// Device memory given out and taken back in a stream's order, without waiting for it.
///
/// Memory may be used by work that is given to the stream after allocate(), and until free() in a
/// stream that comes after it. Freed memory serves the next allocate() of that stream at once.
/// Invariants: a pool outlives what it gave out. Thread: any.
class Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  virtual ~Pool() = default;

  /// Errors: invalid_argument (size 0), exhausted.
  virtual Result<std::uint64_t> allocate(std::uint64_t size_bytes, Stream& stream) = 0;
  /// Once for each allocate().
  virtual Status free(std::uint64_t address, Stream& stream) = 0;
  virtual Result<PoolFigures> figures() const = 0;
  /// Gives back to the device what is not used, down to `keep_bytes`.
  virtual Status trim(std::uint64_t keep_bytes) = 0;
};

/// Memory of a pool with one owner; freed in the order of the stream that it was allocated in.
/// Thread: the owner's.
class PooledMemory {
 public:
  PooledMemory() = default;
  /// Errors: as Pool::allocate.
  static Result<PooledMemory> allocate(std::shared_ptr<Pool> pool, std::shared_ptr<Stream> stream,
                                       std::uint64_t size_bytes) {
    TOWPATH_TRY(const std::uint64_t address, pool->allocate(size_bytes, *stream));
    PooledMemory memory;
    memory.pool_ = std::move(pool);
    memory.stream_ = std::move(stream);
    memory.address_ = address;
    memory.size_bytes_ = size_bytes;
    return memory;
  }
  PooledMemory(PooledMemory&&) noexcept = default;
  PooledMemory& operator=(PooledMemory&& other) noexcept {
    PooledMemory taken(std::move(other));  // ours is freed with it
    std::swap(pool_, taken.pool_);
    std::swap(stream_, taken.stream_);
    std::swap(address_, taken.address_);
    std::swap(size_bytes_, taken.size_bytes_);
    return *this;
  }
  ~PooledMemory() {
    if (pool_ != nullptr) (void)pool_->free(address_, *stream_);
  }

  std::uint64_t address() const noexcept { return address_; }
  std::uint64_t size() const noexcept { return size_bytes_; }

 private:
  // Both null: empty, moved from. The pool dies after the stream has passed the free.
  std::shared_ptr<Pool> pool_;
  std::shared_ptr<Stream> stream_;
  std::uint64_t address_ = 0;
  std::uint64_t size_bytes_ = 0;
};

// Memory: what a device gave, or took in, with one owner. It is given back when this dies.
//
// It is no region (memory/): it knows nothing of agents, views or layouts.
// Invariants: keeps its device alive. Moved from, it is empty.
// Thread: immutable; release() and moves by the owner.
class Device;

enum class Origin : std::uint8_t {
  device,      ///< memory of the device
  pinned,      ///< host memory that the driver allocated
  registered,  ///< somebody's host memory, pinned while this lives
  imported,    ///< another process's device memory, mapped while this lives
};

struct MemoryFacts {
  Origin origin = Origin::device;
  std::uint64_t address = 0;  ///< for this process, or of the device: by the origin
  std::uint64_t size_bytes = 0;
  /// Where the device itself finds the bytes; mostly the same.
  std::uint64_t device_address = 0;
};

class Memory {
 public:
  Memory() = default;
  /// For drivers: takes over what `device` has just made.
  Memory(std::shared_ptr<Device> device, const MemoryFacts& facts) noexcept
      : device_(std::move(device)), facts_(facts) {}
  Memory(Memory&& other) noexcept
      : device_(std::move(other.device_)), facts_(std::exchange(other.facts_, {})) {}
  Memory& operator=(Memory&& other) noexcept {
    Memory taken(std::move(other));  // ours is given back with it, at once
    std::swap(device_, taken.device_);
    std::swap(facts_, taken.facts_);
    return *this;
  }
  ~Memory() { (void)release(); }

  explicit operator bool() const noexcept { return device_ != nullptr; }
  Origin origin() const noexcept { return facts_.origin; }
  std::uint64_t address() const noexcept { return facts_.address; }
  std::uint64_t size() const noexcept { return facts_.size_bytes; }
  std::uint64_t device_address() const noexcept { return facts_.device_address; }
  /// Null when empty.
  const std::shared_ptr<Device>& device() const noexcept { return device_; }

  /// Gives it back now. Idempotent. After a failure it is still held: registered memory must then
  /// not be freed, since the device may still reach it. Errors: the driver's.
  Status release();

 private:
  std::shared_ptr<Device> device_;  // null: empty
  MemoryFacts facts_;
};

/// The device is current on the thread that made this, until it dies; then what was before is. So
/// long, a graph that another thread captures is no obstacle to calls of this one.
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

  /// Whether its streams copy boxes. The kernel is loaded when this is first asked, which takes a
  /// good part of a second and may wait for what the device has to do.
  /// Errors: unsupported (not_built, the driver does not take it, or the device knows pinned memory
  /// by other addresses than the host), exhausted.
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
