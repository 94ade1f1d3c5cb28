// NixlMemory: what towpath.nixl registered, by value. Who takes memory back names it again by
// address, length and device; the same memory may be registered many times.
//
// Memory is registered with each backend by itself, so that it can be taken back from one.
//
// A list is registered, and taken back, in one call and as a whole or not at all: a pool is
// thousands of regions, and an object of Python's for each took longer than to register it.
// Thread: any, without the interpreter's lock.
#pragma once

#include <cstddef>
#include <cstdint>
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
  using BackendNumber = std::uint32_t;
  /// What was taken out: each registration, and whose it was.
  struct Taken {
    struct From {
      std::size_t place = 0;
      BackendNumber backend = 0;
    };
    Registrations registrations;
    std::vector<From> from;
  };
  enum class Wanted : std::uint8_t { of_each_backend, of_any_backend };

  /// `made` stands for `places`, one each, with `backend`.
  void add(BackendNumber backend, MemoryKind kind, const std::vector<Descriptor>& places,
           Registrations made);
  /// Of each place one registration with each of `backends`, or with those of them that have one,
  /// and that is at least one. They are the caller's from then on. Errors: not_found (then all stay
  /// here).
  Result<Taken> take(MemoryKind kind, const std::vector<Descriptor>& places,
                     const std::vector<BackendNumber>& backends, Wanted wanted);
  /// What could not be released, with what of it was: the list is named again as it was, and then
  /// nothing is left to do there.
  void put_back(MemoryKind kind, const std::vector<Descriptor>& places, Taken taken);

 private:
  struct Entry {
    MemoryKind kind = MemoryKind::system;
    BackendNumber backend = 0;
    Descriptor where;
    memory::Registration registration;
    bool is_used = false;  ///< not whether it is registered: see put_back()

    bool is_free() const noexcept { return !is_used; }
    std::size_t home() const noexcept { return home_of(kind, where); }
  };

  static std::size_t home_of(MemoryKind kind, const Descriptor& where) noexcept;
  /// False: there is none.
  bool take(MemoryKind kind, const Descriptor& where, BackendNumber backend, Registrations& into)
      TOWPATH_REQUIRES(mutex_);
  /// There is room.
  void put(MemoryKind kind, const std::vector<Descriptor>& places, Taken taken)
      TOWPATH_REQUIRES(mutex_);

  run::Mutex mutex_;
  ProbingTable<Entry> table_ TOWPATH_GUARDED_BY(mutex_);
};

}  // namespace towpath::python
