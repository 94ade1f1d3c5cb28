// MemoryTable: what is registered in one backend, by number; the number is the key in the metadata.
//
// A record is shared by the registration and by all that was imported from it, so that an import
// may outlive what it came from and find out. A backend derives its own record: with a gate, a
// handle, an open file. Keys and regions that peers give are hostile: find() alone decides.
//
//   register_memory --> add(region) --> record --key_of()--> metadata
//   metadata --id_of_key(), find()--> import
//
// Invariant: a number is never given twice by add().
// Thread: as its owner guards it; records as their type says.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include <towpath/core/bytes.h>
#include <towpath/core/descriptor.h>
#include <towpath/core/identity.h>
#include <towpath/core/result.h>

namespace towpath::backend {

struct RegisteredRegion {
  RegisteredRegion(RegionDescriptor its_region, std::uint64_t its_id)
      : region(std::move(its_region)), id(its_id) {}

  const RegionDescriptor region;
  const std::uint64_t id;
};

/// The record's number, 8 bytes little-endian.
Bytes key_of(const RegisteredRegion& record);
/// Errors: corrupt (another size).
Result<std::uint64_t> id_of_key(ConstByteSpan key);

/// Whether `part` is of the kind of `whole` and lies inside of it. Errors: corrupt.
Status check_inside(const RegionDescriptor& part, const RegionDescriptor& whole);
Status no_such_memory(std::uint64_t id, const AgentIdentity& owner);

template <std::derived_from<RegisteredRegion> Record>
class MemoryTable {
 public:
  using Records = std::map<std::uint64_t, std::shared_ptr<Record>>;

  /// `owner`: whose backend this is, for errors.
  explicit MemoryTable(AgentIdentity owner) : owner_(std::move(owner)) {}

  /// Makes a record with the next number.
  std::shared_ptr<Record> add(const RegionDescriptor& region) {
    auto record = std::make_shared<Record>(region, ++last_);
    put(record);
    return record;
  }
  /// A record with a number that the backend chose; in place of one with the same.
  void put(std::shared_ptr<Record> record) {
    const std::uint64_t id = record->id;
    records_.insert_or_assign(id, std::move(record));
  }
  void remove(std::uint64_t id) { records_.erase(id); }
  /// Empties the table.
  Records take_all() { return std::exchange(records_, {}); }

  /// The record by which `region` can be reached. Both arguments come from outside.
  /// Errors: not_found (taken back, or never registered), corrupt (not inside of it).
  Result<std::shared_ptr<Record>> find(std::uint64_t id, const RegionDescriptor& region) const {
    const auto found = records_.find(id);
    if (found == records_.end()) return no_such_memory(id, owner_);
    TOWPATH_TRY(check_inside(region, found->second->region));
    return found->second;
  }

 private:
  const AgentIdentity owner_;
  std::uint64_t last_ = 0;
  Records records_;
};

}  // namespace towpath::backend
