// The memories and connections of a backend of messages.
// Thread: loop.
#pragma once

#include <towpath/backend/backend.h>
#include <towpath/backend/slab.h>
#include <towpath/backends/messages/connection_info.h>
#include <towpath/backends/messages/target.h>

namespace towpath::backends::messages {

struct MessageMemory : backend::Memory {
  MessageMemory(RegionDescriptor its_region, std::uint64_t its_token)
      : region(std::move(its_region)), token(its_token) {}
  /// Of one of ours.
  MessageMemory(const RegionDescriptor& its_region, Target& target, DeviceWindow* window)
      : region(its_region), token(target.add(region, window)) {}

  const RegionDescriptor region;
  const std::uint64_t token;
};

/// Registered here.
struct OwnMemory final : backend::InSlab<OwnMemory, MessageMemory> {
  /// `its_window`: of a device's memory (target.h). The rooms and the owner outlive it.
  OwnMemory(backend::Slab<OwnMemory>& slab, const RegionDescriptor& its_region, Target& its_target,
            DeviceWindow* its_window)
      : InSlab(slab, its_region, its_target, its_window), target(its_target), window(its_window) {}
  ~OwnMemory() override { target.remove(token); }
  Bytes key() const override {
    return encode(MemoryKey{token, region.address, region.length, is_read_only});
  }

  Target& target;
  DeviceWindow* const window;
};

/// Registered by a peer.
struct ImportedMemory final : MessageMemory {
  /// `its_instance`: of the backend there.
  ImportedMemory(const RegionDescriptor& its_region, const MemoryKey& key,
                 std::uint64_t its_instance)
      : MessageMemory(its_region, key.token), instance(its_instance) {
    is_read_only = key.is_read_only;
  }

  const std::uint64_t instance;
};

}  // namespace towpath::backends::messages
