// NixlMemory: what towpath.nixl registered, by value. Who takes memory back names it again by
// address, length and device; the same memory may be registered many times.
//
// A list is registered, and taken back, in one call and as a whole or not at all: a pool is
// thousands of regions, and an object of Python's for each took longer than to register it.
// Thread: any, without the interpreter's lock.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/core/descriptor.h>
#include <towpath/memory/registrar.h>
#include <towpath/run/mutex.h>

namespace towpath::python {

class NixlMemory {
 public:
  using Registrations = std::vector<memory::Registration>;

  /// `made` stands for `places`, one each.
  void add(MemoryKind kind, const std::vector<Descriptor>& places, Registrations made);
  /// Of each place the one registration that is in none but these backends; empty: any.
  /// Errors: not_found (nothing was taken back then), not_ready (bytes may still move).
  Status remove(MemoryKind kind, const std::vector<Descriptor>& places,
                const std::vector<std::string>& backends);

 private:
  struct Key {
    MemoryKind kind = MemoryKind::system;
    Descriptor where;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const noexcept;
  };
  using Held = std::unordered_multimap<Key, memory::Registration, Hash>;

  Held::node_type take(const Key& key, const std::vector<std::string>& backends)
      TOWPATH_REQUIRES(mutex_);

  run::Mutex mutex_;
  Held held_ TOWPATH_GUARDED_BY(mutex_);
};

}  // namespace towpath::python
