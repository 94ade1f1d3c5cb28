// TestMemory: bytes of one store, which a test can fill and read whatever they lie in.
// Thread: immutable; the bytes are as safe as the test makes them.
#pragma once

#include <cstdint>
#include <memory>

#include <towpath/backend/conformance/candidate.h>
#include <towpath/core/bytes.h>
#include <towpath/core/testing/random_bytes.h>
#include <towpath/device/driver.h>
#include <towpath/memory/device_region.h>
#include <towpath/memory/disk_region.h>
#include <towpath/memory/region.h>
#include <towpath/sys/file.h>

namespace towpath::backend::conformance {

/// Whose memory Store::device is: host memory that emulates a device's. One for the process, as a
/// machine's is.
std::shared_ptr<device::Driver> test_driver();
/// Instead of that, from now on: CUDA's, and its first GPU stays open. Errors: the driver's.
Status use_gpu();

inline constexpr std::byte kPoison{0xA5};

class TestMemory {
 public:
  TestMemory() = default;
  /// Memory that this process can reach.
  explicit TestMemory(memory::SharedRegion region) : region_(std::move(region)) {}
  static Result<TestMemory> make(Store store, std::uint64_t size_bytes);
  /// A new object of a store; there is none before the first write().
  static Result<TestMemory> make_object(std::shared_ptr<TestObjects> objects,
                                        std::uint64_t size_bytes);

  const memory::SharedRegion& region() const noexcept { return region_; }
  MemoryKind kind() const { return region_->kind(); }
  std::uint64_t address() const { return region_->descriptor().address; }
  std::uint64_t device_id() const { return region_->descriptor().device_id; }
  std::uint64_t size() const { return region_->size(); }

  Bytes read() const;
  /// The same into memory that is there: fresh pages cost a sanitizer more than what is tested.
  void read_into(Bytes& bytes) const;
  void write(ConstByteSpan bytes) const;
  void poison() const { write(Bytes(size(), kPoison)); }
  bool is_poison() const { return are_same_bytes(read(), Bytes(size(), kPoison)); }
  /// Disk and object only: cuts it behind the agents' backs.
  void cut(std::uint64_t size_bytes) const;

 private:
  memory::SharedRegion region_;
  std::shared_ptr<const memory::DiskRegion> disk_;  // the same, when it is one
  std::shared_ptr<sys::File> device_;               // what lies behind a raw device

  sys::File& file() const { return device_ ? *device_ : disk_->file(); }
  std::shared_ptr<TestObjects> objects_;             // where it is, when it is an object
  std::shared_ptr<const memory::DeviceRegion> gpu_;  // the same, when it is a device's
};

}  // namespace towpath::backend::conformance
