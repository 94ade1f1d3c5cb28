#include "bindings/python/src/nixl_memory.h"

#include <utility>

#include <towpath/core/format.h>

namespace towpath::python {
namespace {

Status not_registered(MemoryKind kind, const Descriptor& where, bool with_all) {
  return error(Code::not_found,
               cat(to_string(kind, where), " is not registered",
                   with_all ? " with each of these backends" : ""),
               "name it as it was registered: address, length and device");
}

}  // namespace

// Addresses are multiples of blocks: what differs has to reach the low bits.
std::size_t NixlMemory::home_of(MemoryKind kind, const Descriptor& where) noexcept {
  constexpr std::uint64_t kOdd = 0x9e37'79b9'7f4a'7c15;
  std::uint64_t mixed = (where.address ^ (where.device_id << 48U)) * kOdd;
  mixed = (mixed ^ (mixed >> 32U) ^ where.length) * kOdd;
  return mixed ^ (mixed >> 29U) ^ static_cast<std::uint64_t>(kind);
}

void NixlMemory::add(BackendNumber backend, MemoryKind kind, const std::vector<Descriptor>& places,
                     Registrations made) {
  run::MutexLock lock(mutex_);
  table_.make_room(made.size());
  for (std::size_t i = 0; i < made.size(); ++i)
    table_.put({kind, backend, places[i], std::move(made[i]), true});
}

void NixlMemory::put_back(MemoryKind kind, const std::vector<Descriptor>& places, Taken taken) {
  run::MutexLock lock(mutex_);
  table_.make_room(taken.registrations.size());
  put(kind, places, std::move(taken));
}

void NixlMemory::put(MemoryKind kind, const std::vector<Descriptor>& places, Taken taken) {
  for (std::size_t i = 0; i < taken.registrations.size(); ++i) {
    const auto& [place, backend] = taken.from[i];
    table_.put({kind, backend, places[place], std::move(taken.registrations[i]), true});
  }
}

bool NixlMemory::take(MemoryKind kind, const Descriptor& where, BackendNumber backend,
                      Registrations& into) {
  Entry* const found = table_.find(home_of(kind, where), [&](const Entry& one) {
    return one.where == where && one.kind == kind && one.backend == backend;
  });
  if (found == nullptr) return false;
  into.push_back(table_.take_out(*found).registration);
  return true;
}

Result<NixlMemory::Taken> NixlMemory::take(MemoryKind kind, const std::vector<Descriptor>& places,
                                           const std::vector<BackendNumber>& backends,
                                           Wanted wanted) {
  Taken taken;
  taken.registrations.reserve(places.size() * backends.size());
  taken.from.reserve(places.size() * backends.size());
  run::MutexLock lock(mutex_);
  for (std::size_t place = 0; place < places.size(); ++place) {
    std::size_t found = 0;
    for (const BackendNumber backend : backends) {
      if (!take(kind, places[place], backend, taken.registrations)) continue;
      taken.from.push_back({place, backend});
      ++found;
    }
    const bool with_all = wanted == Wanted::of_each_backend;
    if (found >= (with_all ? backends.size() : 1)) continue;
    put(kind, places, std::move(taken));
    return not_registered(kind, places[place], with_all);
  }
  return taken;
}

}  // namespace towpath::python
