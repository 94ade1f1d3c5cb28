// Memory: what a device gave, or took in, with one owner. It is given back when this dies.
//
// It is no region (memory/): it knows nothing of agents, views or layouts.
// Invariants: keeps its device alive. Moved from, it is empty.
// Thread: immutable; release() and moves by the owner.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <towpath/core/result.h>

namespace towpath::device {

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

}  // namespace towpath::device
