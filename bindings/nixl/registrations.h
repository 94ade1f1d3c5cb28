// Registrations as NIXL's users keep them: by value. What they registered they name again, by
// address, length and device, to take it back; the same memory may be registered many times.
//
// Each descriptor is registered with each backend by itself, so that it can be taken back from one.
// Invariants: for each backend a list is registered as a whole or not at all, and taken back so
// from those that are named. Thread: any.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/compat/nixl/backends.h>
#include <towpath/run/mutex.h>
#include <towpath/telemetry/log.h>

#include "bindings/nixl/descriptors.h"

namespace towpath::nixl {

class Registrations {
 public:
  using Backends = std::vector<nixl::NixlBackend>;
  struct Where {
    agent::Agent& agent;
    Backends named;
    Backends all;  ///< of the agent
  };
  /// With each of those named, all or nothing; with none named, with every backend that takes the
  /// memory, at least one of them. Errors: not_found (no backend takes it, or is called so), or why
  /// one refused.
  Status add(const Where& where, const nixl_capi_reg_dlist_s& given, const telemetry::Log& log);
  /// From each of `backends`; with none named, of each descriptor what every backend has of it.
  /// Errors: not_found, not_ready (bytes may still move: name the list again when they do not).
  Status remove(agent::Agent& agent, const nixl_capi_reg_dlist_s& given, const Backends& backends);

 private:
  // Backend, kind, address, length, device.
  using Key = std::tuple<std::string, MemoryKind, std::uint64_t, std::uint64_t, std::uint64_t>;
  using Held = std::multimap<Key, memory::Registration>;
  static Key key_of(const std::string& backend, MemoryKind kind, const Descriptor& where) {
    return {backend, kind, where.address, where.length, where.device_id};
  }

  /// Those of the list, taken out of `held_`; nothing when one is missing.
  std::vector<Held::node_type> take_out(const std::string& backend, MemoryKind kind,
                                        const nixl_capi_reg_dlist_s& list) TOWPATH_REQUIRES(mutex_);
  /// What any backend has of the list; nothing when none has one of its descriptors.
  std::vector<Held::node_type> take_out_everywhere(MemoryKind kind,
                                                   const nixl_capi_reg_dlist_s& list)
      TOWPATH_REQUIRES(mutex_);
  /// What was taken out goes. On failure all of it comes back, with what of it was released: the
  /// list is named again as it was, and then nothing is left to do there.
  Status release(agent::Agent& agent, std::vector<Held::node_type> taken);
  std::vector<std::string> known_backends() const TOWPATH_REQUIRES(mutex_);

  mutable run::Mutex mutex_;
  Held held_ TOWPATH_GUARDED_BY(mutex_);
};

}  // namespace towpath::nixl
