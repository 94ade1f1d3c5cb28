// ResolvedList: a descriptor list with every extent resolved to the region that covers it.
//
// Resolving is paid once, so that a transfer by index costs a few nanoseconds per extent.
// Extents that follow each other at equal distances are folded into strided entries: the K blocks
// of one layer, listed one by one or as one StridedDescriptor, become the same single entry.
// Thread: immutable once made; records are read under the locks that memory_record.h names.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <towpath/agent/memory_record.h>
#include <towpath/core/descriptor.h>
#include <towpath/core/result.h>

namespace towpath::agent {

struct ResolvedEntry {
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint64_t stride = 0;
  std::uint64_t count = 1;
  MemoryRecord* record = nullptr;
};

/// One extent of a list that does not fold, in less than half the bytes of an entry: of long lists
/// in any order it is the memory that sets the pace.
struct FlatExtent {
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  std::uint32_t record = 0;  ///< its place in records()
};

class ResolvedList {
 public:
  /// Finds the record of an extent, or says why there is none.
  class Resolver {
   public:
    virtual ~Resolver() = default;
    virtual Result<RecordPtr> resolve(MemoryKind kind, const Descriptor& what) = 0;
    struct Useless {
      const MemoryRecord* record = nullptr;
      Status why;
    };
    /// Once, after the last resolve(): what is expensive for one record, and cheap for many. Gives
    /// one that turned out to be of no use, if there is one.
    virtual std::optional<Useless> settle() { return std::nullopt; }
  };

  /// Errors: the resolver's, with the index of the extent in front; out_of_range (a plain one that
  /// goes past the end of 64-bit space).
  static Result<ResolvedList> make(const DescriptorView& list, Resolver& resolver);
  /// As make(), in the room of what it was before. After an error it is to be cleared.
  Status assign(const DescriptorView& list, Resolver& resolver);
  /// Lets go of what it refers to, and keeps its room.
  void clear();

  MemoryKind kind() const noexcept { return kind_; }
  std::uint64_t size() const noexcept { return size_; }
  std::uint64_t total_bytes() const noexcept { return total_bytes_; }
  std::size_t entry_count() const noexcept { return is_flat() ? flat_.size() : entries_.size(); }
  ResolvedEntry entry(std::size_t i) const noexcept {
    if (!is_flat()) return entries_[i];
    const FlatExtent& extent = flat_[i];
    return {extent.address, extent.length, 0, 1, records_[extent.record].get()};
  }
  /// Its entries, when each of them is one extent below 4 GiB; else empty.
  std::span<const FlatExtent> flat() const noexcept { return flat_; }
  std::uint64_t first_index(std::size_t entry) const noexcept {
    return uniform_count_ != 0 ? entry * uniform_count_ : first_[entry];
  }
  /// The distinct records behind the entries, kept alive.
  std::span<const RecordPtr> records() const noexcept { return records_; }
  /// The backends that know all of them. Acquire pairs with the release in look_again().
  InstanceMask instances() const noexcept {
    return instances_.value.load(std::memory_order_acquire);
  }
  /// Of a peer's, the backends that may come to, when they are asked to import the rest. Asked
  /// before instances(): what is gone from here stands there, or was refused.
  InstanceMask open_instances() const noexcept {
    return open_.value.load(std::memory_order_acquire);
  }
  /// Some records were imported, or not. Under the agent's control mutex.
  void look_again() const;
  /// Leaves out the backends that let go of own memory which others still have. Looks once for each
  /// `generation` of the agent's memory. Thread: any.
  void leave_out_gone(std::uint64_t generation) const;
  /// Whether no two extents overlap, as far as is cheap to prove. Proven when it is first asked:
  /// a list that is only read from never pays for it.
  bool is_disjoint() const;

  /// The entry that holds extent `index` < size().
  std::size_t entry_of(std::uint64_t index) const noexcept {
    if (uniform_count_ != 0) return static_cast<std::size_t>(index / uniform_count_);
    return search(index);
  }

 private:
  class Finder;
  /// What is found out later of a list that does not change. It moves while nobody else has it.
  template <typename T>
  struct FoundOut {
    FoundOut() = default;
    FoundOut(FoundOut&& other) noexcept : value(other.value.load(std::memory_order_relaxed)) {}
    FoundOut& operator=(FoundOut&& other) noexcept {
      value.store(other.value.load(std::memory_order_relaxed), std::memory_order_relaxed);
      return *this;
    }
    std::atomic<T> value{};
  };
  enum class Answer : signed char { none, yes, no };

  bool is_flat() const noexcept { return !flat_.empty(); }
  void append(ResolvedEntry entry);
  Status resolve_strided(const DescriptorList& list, Finder& finder);
  Status resolve_flat(std::span<const Descriptor> list, Finder& finder);
  void widen(std::span<const Descriptor> list);
  Status settle(Resolver& resolver) const;
  void fold();
  void unfold();
  void finish();
  std::size_t search(std::uint64_t index) const noexcept;
  bool prove_disjoint() const;
  bool lies_on_one_device() const;

  MemoryKind kind_ = MemoryKind::system;
  std::uint64_t total_bytes_ = 0;
  std::uint64_t size_ = 0;
  std::uint64_t uniform_count_ = 0;  // extents per entry where all have as many, else 0
  mutable FoundOut<InstanceMask> instances_;
  mutable FoundOut<InstanceMask> open_;
  mutable FoundOut<std::uint64_t> generation_;  // that leave_out_gone() was last asked for
  /// Threads which ask at once find the same. Relaxed: it guards nothing.
  mutable FoundOut<Answer> disjoint_;
  std::vector<FlatExtent> flat_;  // or, when it is empty:
  std::vector<ResolvedEntry> entries_;
  std::vector<std::uint64_t> first_;  // of each entry, and size() at the end; none if uniform
  std::vector<RecordPtr> records_;
};

}  // namespace towpath::agent
