// RemoteRegions: the regions of a peer as its metadata reported them, in a few blocks of memory.
//
// A pool is thousands of regions, and most are never asked for: each is an entry of an index, and
// the bytes of its keys stand one behind the other. A record, which backends import, is made of
// what somebody asks for.
// Thread: none of its own; a peer's is guarded by the agent's control mutex.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <towpath/agent/memory_record.h>
#include <towpath/agent/metadata.h>
#include <towpath/agent/region_index.h>
#include <towpath/core/bytes.h>

namespace towpath::agent {

class RemoteRegions {
 public:
  /// For so many regions in all, with keys as those before.
  void reserve(std::size_t regions);
  /// What metadata says of a region.
  void add(const AgentMetadata::Region& advertised);
  /// After the last add(): of what was reported twice the first counts; `instances` says which
  /// instance each backend of the metadata is here (kMaxInstances: none), `reachable` to which of
  /// them there is a way.
  void finish(std::span<const std::size_t> instances, InstanceMask reachable);

  /// Takes the place of what an older metadata reported, or with `partial` adds to it. What is
  /// reported again with the keys that it had, or with more of other backends, keeps its record,
  /// and with it what was prepared against it. Returns the records that do not stand any more,
  /// which are stale from now on.
  std::vector<RecordPtr> update(RemoteRegions newer, bool partial);

  /// What covers `what`, with its record, made if need be; null: nothing does. Valid until the next
  /// update().
  RegionEntry* find(MemoryKind kind, const Descriptor& what);
  /// Of a record that find() gave; null: it does not stand any more.
  const RegionEntry* entry_of(const MemoryRecord& record);
  /// Of an instance that the entry's record is offered by.
  ConstByteSpan key_of(const RegionEntry& entry, std::size_t instance) const;
  bool covers(MemoryKind kind, const Descriptor& what) {
    return index_.find(kind, what) != nullptr;
  }
  std::size_t size() const noexcept { return index_.entries().size(); }
  /// Calls `visit(MemoryRecord&)` for those that were made.
  template <typename Visit>
  void each_record(Visit&& visit) const {
    for (const RegionEntry& entry : index_.entries()) {
      if (entry.record) visit(*entry.record);
    }
  }

 private:
  /// The keys of neighbouring rows, of the same backends and lengths: a pool needs one of these.
  struct Shape {
    std::uint64_t first_row = 0;
    std::uint64_t begin = 0;                                    // of that row's keys in key_bytes_
    std::uint64_t row_bytes = 0;                                // of all keys of a row
    std::vector<std::pair<std::uint32_t, std::uint32_t>> keys;  // backend or instance, bytes
    bool all_known = true;                                      // no backend that is not here
  };
  using Keys = std::vector<std::pair<std::uint32_t, ConstByteSpan>>;  // instance, key

  const Shape& shape_of(std::uint64_t row) const;
  ConstByteSpan bytes_of(const Shape& shape, std::uint64_t row) const;
  /// Without those of backends that are not here.
  Keys keys_of(std::uint64_t row) const;
  /// Whether all keys of the older row stand in this one; it may have more.
  bool has_keys_of(const RemoteRegions& older, std::uint64_t older_row, std::uint64_t row) const;
  /// `keys`: pairs of a number and bytes.
  template <typename KeyList>
  std::uint64_t add_row(const KeyList& keys);
  void offer(const RegionEntry& entry) const;
  RecordPtr make_record(const RegionEntry& entry);

  RegionIndex index_;
  Bytes key_bytes_;
  std::vector<Shape> shapes_;
  std::uint64_t rows_ = 0;
  InstanceMask reachable_ = 0;
  /// Records lie side by side, some of them yet to be used; they go with the last one in use.
  std::shared_ptr<MemoryRecord[]> slab_;
  std::size_t slab_size_ = 0;
  std::size_t spare_ = 0;
};

}  // namespace towpath::agent
