// Where bytes are.
//
// A Descriptor is one extent. A StridedDescriptor is `count` equal extents, `stride` bytes
// apart, as one value: 16,000 KV blocks of one layer are one of them. A DescriptorList is an
// ordered list of either, all of one memory kind; it keeps its user's order, and its index counts
// extents, not entries:
//
//   entry 0: address 1000, length 16, stride 64, count 3      index 0 1 2
//   entry 1: address 9000, length 32, count 1                 index 3
//
// The meaning of `address` follows the kind (memory_kind.h). Overlaps are legal here; they are an
// error only among the targets of one transfer.
// Thread: immutable once built.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <towpath/core/memory_kind.h>
#include <towpath/core/result.h>

namespace towpath {

struct Descriptor {
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint64_t device_id = 0;

  friend bool operator==(const Descriptor&, const Descriptor&) = default;
};

struct StridedDescriptor {
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint64_t stride = 0;  ///< bytes from one start to the next; ignored when count is 1
  std::uint64_t count = 1;   ///< at least 1
  std::uint64_t device_id = 0;

  constexpr Descriptor at(std::uint64_t index) const noexcept {
    return {address + stride * index, length, device_id};
  }
  friend bool operator==(const StridedDescriptor&, const StridedDescriptor&) = default;
};

class DescriptorList {
 public:
  explicit DescriptorList(MemoryKind kind) : kind_(kind) {}
  DescriptorList(MemoryKind kind, std::span<const Descriptor> descriptors);

  /// Errors: out_of_range (the extent would wrap around the end of the address space).
  Status add(const Descriptor& descriptor);
  /// Errors: as above; invalid_argument (count 0).
  Status add(const StridedDescriptor& descriptor);
  void reserve(std::size_t entries);
  void clear() noexcept;

  MemoryKind kind() const noexcept { return kind_; }
  /// Extents.
  std::uint64_t size() const noexcept { return first_.back(); }
  bool empty() const noexcept { return size() == 0; }
  std::uint64_t total_bytes() const noexcept { return total_bytes_; }

  std::span<const StridedDescriptor> entries() const noexcept { return entries_; }
  /// The index of the first extent of each entry, and behind the last one size().
  std::span<const std::uint64_t> first_indices() const noexcept { return first_; }
  /// Extent `index`; `index` < size(). Cost: logarithmic in entries.
  Descriptor at(std::uint64_t index) const;

  friend bool operator==(const DescriptorList& a, const DescriptorList& b) {
    return a.kind_ == b.kind_ && a.entries_ == b.entries_;
  }

 private:
  MemoryKind kind_;
  std::uint64_t total_bytes_ = 0;
  std::vector<StridedDescriptor> entries_;
  std::vector<std::uint64_t> first_{0};
};

/// A DescriptorList, or one extent each without it, which costs least where blocks lie in any
/// order. Borrows what it was made of.
class DescriptorView {
 public:
  DescriptorView(const DescriptorList& list) noexcept  // NOLINT(google-explicit-constructor)
      : kind_(list.kind()), list_(&list) {}
  DescriptorView(MemoryKind kind, std::span<const Descriptor> plain) noexcept
      : kind_(kind), plain_(plain) {}

  MemoryKind kind() const noexcept { return kind_; }
  /// Null: it is plain().
  const DescriptorList* list() const noexcept { return list_; }
  std::span<const Descriptor> plain() const noexcept { return plain_; }

 private:
  MemoryKind kind_;
  const DescriptorList* list_ = nullptr;
  std::span<const Descriptor> plain_;
};

/// A whole region, as a backend and metadata need to know it.
struct RegionDescriptor {
  MemoryKind kind = MemoryKind::system;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint64_t device_id = 0;
  /// disk: the open file. system: a sealed memfd that holds these bytes from `fd_offset` on, which
  /// another process may map. -1: none. Borrowed; must stay open while the region is registered.
  int fd = -1;
  std::uint64_t fd_offset = 0;
  /// object: the key. disk: the path, for messages.
  std::string key;
  /// Nobody can write there. Of host memory that is registered the kernel was asked, once.
  bool is_read_only = false;
  /// Of host memory: an access may end in a signal, since somebody else may unmap it, protect it or
  /// cut its file. Not of memory that this library has mapped for its user.
  bool may_fault = true;

  /// Whether `what` lies inside this region.
  bool covers(const Descriptor& what) const noexcept;
};

/// "system [0x7f0000, +4096) device 0".
std::string to_string(MemoryKind kind, const Descriptor& descriptor);
std::string to_string(const RegionDescriptor& region);

}  // namespace towpath
