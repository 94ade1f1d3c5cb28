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

  const RegionDescriptor region;
  const std::uint64_t token;
};

/// Registered here.
struct OwnMemory final : UcxMemory {
  /// `window`: of a device's memory (owner.h).
  OwnMemory(const RegionDescriptor& its_region, Owner& its_owner, DeviceWindow* window)
      : UcxMemory(its_region, its_owner.add(its_region, window)), owner(its_owner) {}
  ~OwnMemory() override { owner.remove(token); }
  Bytes key() const override { return bytes_of_key; }

  Owner& owner;
  const Bytes bytes_of_key = encode(MemoryKey{token, region.address, region.length});
};

/// Registered by a peer.
struct ImportedMemory final : UcxMemory {
  using UcxMemory::UcxMemory;
};

}  // namespace towpath::backends::ucx
