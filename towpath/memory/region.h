// Region: bytes of one memory kind with one owner.
//
// A Region says where its bytes are and frees them when it dies. It is not a loan: what borrows
// part of one is a View (view.h). Any user type with an address, a size, a kind and a device
// becomes a region through `UserRegion` (borrowed.h).
//
// Invariants: the answers below never change during a region's life.
// Thread: immutable (the bytes themselves are as safe as their users make them).
#pragma once

#include <cstdint>
#include <memory>

#include <towpath/core/bytes.h>
#include <towpath/core/descriptor.h>
#include <towpath/core/memory_kind.h>

namespace towpath::memory {

class Registration;  // registrar.h

/// A part of a region: bytes [offset, offset + size_bytes) of it.
struct Part {
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;

  friend bool operator==(const Part&, const Part&) = default;
};

class Region {
 public:
  virtual ~Region() = default;

  /// Kind, address, length, device; for disk the open file, for shared memory its memfd.
  /// The address of a disk region is an offset into its file (0 for the file's own region).
  virtual RegionDescriptor descriptor() const = 0;

  /// What makes these bytes known to an agent, or null. `Registered` (registered.h) answers with
  /// its own, a view with its base's. Lives as long as this region.
  virtual const Registration* registration() const { return nullptr; }

  MemoryKind kind() const { return descriptor().kind; }
  std::uint64_t size() const { return descriptor().length; }

  /// The bytes, where this process can reach them; empty for disk, object, block and device.
  ByteSpan bytes() const {
    const RegionDescriptor self = descriptor();
    return is_host_addressable(self.kind) ? bytes_at(self.address, self.length) : ByteSpan();
  }

 protected:
  // A region is passed on by its owner, never sliced or copied through this class.
  Region() = default;
  Region(const Region&) = default;
  Region& operator=(const Region&) = default;
};

/// Regions are shared between their user, views, registrations and transfers in flight; the last
/// one to let go frees the bytes.
using SharedRegion = std::shared_ptr<const Region>;

}  // namespace towpath::memory
