// The memories of the shm backend, and how the bytes of an imported one are reached.
// Thread: loop.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <towpath/backend/backend.h>
#include <towpath/backend/memory_table.h>
#include <towpath/backends/shm/device_reach.h>
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
  ShmMemory(RegionDescriptor its_region, Slot its_slot)
      : region(std::move(its_region)), slot(its_slot) {}

  const RegionDescriptor region;
  const Slot slot;
  Path path = Path::own;
  std::uint64_t shift = 0;  ///< from the owner's addresses to ours; added, may wrap
  const backend::Connection* way = nullptr;  ///< by which it was imported
};

/// What is registered in one backend, by the slot's number.
using OwnMemories = backend::MemoryTable<backend::RegisteredRegion>;

/// Memory registered here. The ledger and the table outlive it.
class OwnMemory final : public ShmMemory {
 public:
  OwnMemory(RegionDescriptor its_region, Slot its_slot, Ledger& ledger, OwnMemories& all)
      : ShmMemory(std::move(its_region), its_slot), ledger_(ledger), all_(all) {
    all_.put(std::make_shared<backend::RegisteredRegion>(region, slot.index));
  }
  ~OwnMemory() override {
    all_.remove(slot.index);
    ledger_.give_back(slot);
  }
  Bytes key() const override { return bytes_of_key; }

  Bytes bytes_of_key;

 private:
  Ledger& ledger_;
  OwnMemories& all_;
};

/// Memory of a peer, or of this backend by way of its own card.
class ImportedMemory final : public ShmMemory {
 public:
  ImportedMemory(RegionDescriptor its_region, Slot its_slot, const backend::Connection& its_way)
      : ShmMemory(std::move(its_region), its_slot) {
    way = &its_way;
  }

  std::shared_ptr<PeerMapping> mapping;      ///< for Path::mapped
  std::shared_ptr<ReachedDevice> on_device;  ///< for Path::device
  Status why;  ///< why a better path was not taken; ok: it is the best
};

}  // namespace towpath::backends::shm
