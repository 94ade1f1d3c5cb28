// NixlMemory: what towpath.nixl registered, by value. Who takes memory back names it again by
// address, length and device; the same memory may be registered many times.
//
// A list is registered, and taken back, in one call and as a whole or not at all: a pool is
// thousands of regions, and an object of Python's for each took longer than to register it.
// Thread: any, without the interpreter's lock.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/core/descriptor.h>
#include <towpath/core/probing_table.h>
#include <towpath/memory/registrar.h>
#include <towpath/run/mutex.h>

namespace towpath::python {

class NixlMemory {
 public:
  using Registrations = std::vector<memory::Registration>;

  /// `made` stands for `places`, one each. What was taken and could not be released comes back so,
  /// with what of it was: the list is named again as it was, and then nothing is left to do there.
  void add(MemoryKind kind, const std::vector<Descriptor>& places, Registrations made);
  /// Of each place one registration that is in none but these backends; empty: any. They are the
  /// caller's from then on. Errors: not_found (then all stay here).
  Result<Registrations> take(MemoryKind kind, const std::vector<Descriptor>& places,
                             const std::vector<std::string>& backends);

 private:
  struct Entry {
    MemoryKind kind = MemoryKind::system;
    Descriptor where;
    memory::Registration registration;
    bool is_used = false;  ///< not whether it is registered: see add()

    bool is_free() const noexcept { return !is_used; }
    std::size_t home() const noexcept { return home_of(kind, where); }
  };

  static std::size_t home_of(MemoryKind kind, const Descriptor& where) noexcept;
  /// All of `made`, for the first of `places`. There is room.
  void put(MemoryKind kind, const std::vector<Descriptor>& places, Registrations made)
      TOWPATH_REQUIRES(mutex_);

  run::Mutex mutex_;
  ProbingTable<Entry> table_ TOWPATH_GUARDED_BY(mutex_);
};

}  // namespace towpath::python
