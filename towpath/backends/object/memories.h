// The two kinds of memory that this backend registers: bytes of this process, and an extent of an
// object of a store.
// Thread: loop.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include <towpath/backend/backend.h>
#include <towpath/backend/memory_table.h>
#include <towpath/backends/object/object_name.h>

namespace towpath::backends::object {

class ObjectBackendMemory : public backend::Memory {
 public:
  explicit ObjectBackendMemory(MemoryKind kind) noexcept : kind_(kind) {}
  MemoryKind kind() const noexcept { return kind_; }

 private:
  const MemoryKind kind_;
};

/// Bytes of this process. There is nothing to prepare: libcurl copies from and to where they lie.
class LocalMemory final : public ObjectBackendMemory {
 public:
  using ObjectBackendMemory::ObjectBackendMemory;
};

/// What a registration of an object and its imports have in common.
struct ObjectRecord : backend::RegisteredRegion {
  using RegisteredRegion::RegisteredRegion;
  ObjectName name;
  bool registered = true;
};

/// What is registered. Invariant: a device id stands for one object, since transfers name objects
/// by device id and offset.
class ObjectTable {
 public:
  explicit ObjectTable(AgentIdentity owner) : table_(std::move(owner)) {}

  /// Errors: already_exists (the region's device id stands for another object).
  Result<std::shared_ptr<ObjectRecord>> add(const RegionDescriptor& region, ObjectName name);
  /// The imports' right to the object ends.
  void remove(ObjectRecord& record);
  /// Errors: as MemoryTable::find().
  Result<std::shared_ptr<ObjectRecord>> find(std::uint64_t id,
                                             const RegionDescriptor& region) const {
    return table_.find(id, region);
  }

 private:
  struct Standing {
    ObjectName name;
    std::uint64_t registrations = 0;
  };

  backend::MemoryTable<ObjectRecord> table_;
  std::map<std::uint64_t, Standing> by_device_;
};

/// An extent of an object, registered here or imported from ourselves.
class ObjectMemory final : public ObjectBackendMemory {
 public:
  /// `registered_in`: the table that forgets it when this dies, and outlives it; null: an import.
  explicit ObjectMemory(std::shared_ptr<ObjectRecord> record, ObjectTable* registered_in = nullptr)
      : ObjectBackendMemory(MemoryKind::object),
        record_(std::move(record)),
        registered_in_(registered_in) {}
  ~ObjectMemory() override {
    if (registered_in_ != nullptr) registered_in_->remove(*record_);
  }
  ObjectMemory(const ObjectMemory&) = delete;
  ObjectMemory& operator=(const ObjectMemory&) = delete;

  Bytes key() const override { return backend::key_of(*record_); }
  const ObjectRecord& record() const noexcept { return *record_; }
  const ObjectName& name() const noexcept { return record_->name; }

 private:
  const std::shared_ptr<ObjectRecord> record_;
  ObjectTable* const registered_in_;
};

}  // namespace towpath::backends::object
