// The memories of the shm backend, and how the bytes of an imported one are reached.
// Thread: loop.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <towpath/backend/backend.h>
#include <towpath/backend/memory_table.h>
#include <towpath/backend/slab.h>
#include <towpath/backends/shm/device_reach.h>
#include <towpath/backends/shm/handshake.h>
#include <towpath/backends/shm/peer_file.h>
#include <towpath/backends/shm/registration_table.h>
#include <towpath/core/status.h>

namespace towpath::backends::shm {

enum class Path : std::uint8_t {
  own,      ///< memory of this backend: loads and stores
  mapped,   ///< the peer's memfd, mapped here: loads and stores
  process,  ///< process_vm_readv/writev
  device,   ///< the peer's device memory, mapped by the driver: copies of the device
};

/// Of a region only what is asked for later: a peer's pool is thousands of them.
class ShmMemory : public backend::Memory {
 public:
  ShmMemory(const RegionDescriptor& region, Slot its_slot)
      : where{region.address, region.length, region.device_id}, slot(its_slot), kind(region.kind) {}
  RegionDescriptor region() const {
    return {.kind = kind,
            .address = where.address,
            .length = where.length,
            .device_id = where.device_id};
  }

  const Descriptor where;
  const Slot slot;
  const MemoryKind kind;
  Path path = Path::own;
  std::uint64_t shift = 0;  ///< from the owner's addresses to ours; added, may wrap
  const backend::Connection* way = nullptr;  ///< by which it was imported
};

/// What is registered in one backend, by its slot: what the bearer of our own metadata may touch.
class OwnMemories {
 public:
  /// `owner`: whose backend this is, for errors.
  explicit OwnMemories(AgentIdentity owner) : owner_(std::move(owner)) {}

  /// `memory` stays where it is until it is removed.
  void put(const ShmMemory& memory) {
    const std::size_t index = memory.slot.index;
    // The registration table gives the lowest numbers first, and again.
    if (all_.size() <= index) all_.resize(index + 1);
    all_[index] = &memory;
  }
  void remove(Slot slot) noexcept { all_[slot.index] = nullptr; }
  /// Errors: not_found (taken back, or never registered), corrupt (not inside of it).
  Status check(const RegionDescriptor& region, Slot slot) const {
    const bool is_known = slot.index < all_.size() && all_[slot.index] != nullptr;
    if (!is_known) return backend::no_such_memory(slot.index, owner_);
    return backend::check_inside(region, all_[slot.index]->region());
  }

 private:
  const AgentIdentity owner_;
  std::vector<const ShmMemory*> all_;  // null: none
};

/// Memory registered here. The rooms, the registration table and the table outlive it.
class OwnMemory final : public backend::InSlab<OwnMemory, ShmMemory> {
 public:
  OwnMemory(backend::Slab<OwnMemory>& slab, const RegionDescriptor& its_region, Slot its_slot,
            RegistrationTable& registrations, OwnMemories& all)
      : InSlab(slab, its_region, its_slot), registrations_(registrations), all_(all) {
    all_.put(*this);
  }
  ~OwnMemory() override {
    all_.remove(slot);
    registrations_.give_back(slot);
  }
  void revoke() override { registrations_.revoke(slot); }
  Bytes key() const override {
    ShmKey key{.address = where.address,
               .length = where.length,
               .slot = slot.index,
               .generation = slot.generation,
               .shared = shared,
               .device = std::nullopt,
               .is_read_only = is_read_only};
    if (device) key.device = *device;
    return encode(key);
  }

  std::optional<FileExtent> shared;            ///< where peers map it
  std::unique_ptr<const DeviceExtent> device;  ///< of a device's memory that peers can open

 private:
  RegistrationTable& registrations_;
  OwnMemories& all_;
};

/// Memory of a peer, or of this backend by way of its own metadata.
class ImportedMemory final : public ShmMemory {
 public:
  ImportedMemory(const RegionDescriptor& its_region, Slot its_slot,
                 const backend::Connection& its_way)
      : ShmMemory(its_region, its_slot) {
    way = &its_way;
  }

  /// Of Path::device.
  const ReachedDevice& device() const { return *static_cast<const ReachedDevice*>(through.get()); }

  /// A PeerMapping of Path::mapped, a ReachedDevice of Path::device.
  std::shared_ptr<const void> through;
  Status why;  ///< why a better path was not taken; ok: it is the best
};

}  // namespace towpath::backends::shm
