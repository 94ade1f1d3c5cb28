// The memories and connections of a ucx backend.
// Thread: loop.
#pragma once

#include <towpath/backend/backend.h>
#include <towpath/backends/ucx/handshake.h>
#include <towpath/backends/ucx/owner.h>

namespace towpath::backends::ucx {

struct UcxMemory : backend::Memory {
  UcxMemory(RegionDescriptor its_region, std::uint64_t its_token)
      : region(std::move(its_region)), token(its_token) {}
  /// Of one of ours.
  UcxMemory(const RegionDescriptor& its_region, Owner& owner, DeviceWindow* window)
      : region(its_region), token(owner.add(region, window)) {}

  const RegionDescriptor region;
  const std::uint64_t token;
};

/// Registered here.
struct OwnMemory final : UcxMemory {
  /// `window`: of a device's memory (owner.h).
  OwnMemory(const RegionDescriptor& its_region, Owner& its_owner, DeviceWindow* window)
      : UcxMemory(its_region, its_owner, window), owner(its_owner) {}
  ~OwnMemory() override { owner.remove(token); }
  Bytes key() const override { return encode(MemoryKey{token, region.address, region.length}); }

  Owner& owner;
};

/// Registered by a peer.
struct ImportedMemory final : UcxMemory {
  using UcxMemory::UcxMemory;
};

}  // namespace towpath::backends::ucx
