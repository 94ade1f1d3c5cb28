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
#include <towpath/backends/shm/device_reach.h>
#include <towpath/backends/shm/handshake.h>
#include <towpath/backends/shm/ledger.h>
#include <towpath/backends/shm/peer_file.h>
#include <towpath/core/status.h>

namespace towpath::backends::shm {

enum class Path : std::uint8_t {
  own,      ///< memory of this backend: loads and stores
  mapped,   ///< the peer's memfd, mapped here: loads and stores
  process,  ///< process_vm_readv/writev
  device,   ///< the peer's device memory, mapped by the driver: copies of the device
};

class ShmMemory : public backend::Memory {
 public:
  ShmMemory(const RegionDescriptor& its_region, Slot its_slot)
      : region(its_region), slot(its_slot) {}

  const RegionDescriptor region;
  const Slot slot;
  Path path = Path::own;
  std::uint64_t shift = 0;  ///< from the owner's addresses to ours; added, may wrap
  const backend::Connection* way = nullptr;  ///< by which it was imported
};

/// What is registered in one backend, by its slot: what the bearer of our own card may touch.
class OwnMemories {
 public:
  /// `owner`: whose backend this is, for errors.
  explicit OwnMemories(AgentIdentity owner) : owner_(std::move(owner)) {}

  /// `region` stays where it is until it is removed.
  void put(const RegionDescriptor& region, Slot slot) {
    // The ledger gives the lowest numbers first, and again.
    if (regions_.size() <= slot.index) regions_.resize(slot.index + std::size_t{1});
    regions_[slot.index] = &region;
  }
  void remove(Slot slot) noexcept { regions_[slot.index] = nullptr; }
  /// Errors: not_found (taken back, or never registered), corrupt (not inside of it).
  Status check(const RegionDescriptor& region, Slot slot) const {
    const bool is_known = slot.index < regions_.size() && regions_[slot.index] != nullptr;
    if (!is_known) return backend::no_such_memory(slot.index, owner_);
    return backend::check_inside(region, *regions_[slot.index]);
  }

 private:
  const AgentIdentity owner_;
  std::vector<const RegionDescriptor*> regions_;  // null: none
};

/// Memory registered here. The ledger and the table outlive it.
class OwnMemory final : public ShmMemory {
 public:
  OwnMemory(const RegionDescriptor& its_region, Slot its_slot, Ledger& ledger, OwnMemories& all)
      : ShmMemory(its_region, its_slot), ledger_(ledger), all_(all) {
    all_.put(region, slot);
  }
  ~OwnMemory() override {
    all_.remove(slot);
    ledger_.give_back(slot);
  }
  Bytes key() const override {
    ShmKey key{.address = region.address,
               .length = region.length,
               .slot = slot.index,
               .generation = slot.generation,
               .shared = shared};
    if (device) key.device = *device;
    return encode(key);
  }

  std::optional<FileStretch> shared;            ///< where peers map it
  std::unique_ptr<const DeviceStretch> device;  ///< of a device's memory that peers can open

 private:
  Ledger& ledger_;
  OwnMemories& all_;
};

/// Memory of a peer, or of this backend by way of its own card.
class ImportedMemory final : public ShmMemory {
 public:
  ImportedMemory(const RegionDescriptor& its_region, Slot its_slot,
                 const backend::Connection& its_way)
      : ShmMemory(its_region, its_slot) {
    way = &its_way;
  }

  std::shared_ptr<PeerMapping> mapping;      ///< for Path::mapped
  std::shared_ptr<ReachedDevice> on_device;  ///< for Path::device
  Status why;  ///< why a better path was not taken; ok: it is the best
};

}  // namespace towpath::backends::shm
