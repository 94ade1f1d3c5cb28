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

  /// `made` stands for `places`, one each.
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

    bool is_free() const noexcept { return registration.state() == nullptr; }
    std::size_t home() const noexcept { return home_of(kind, where); }
  };

  static std::size_t home_of(MemoryKind kind, const Descriptor& where) noexcept;

  run::Mutex mutex_;
  ProbingTable<Entry> table_ TOWPATH_GUARDED_BY(mutex_);
};

}  // namespace towpath::python
