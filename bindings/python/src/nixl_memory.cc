#include "bindings/python/src/nixl_memory.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <towpath/core/format.h>

namespace towpath::python {
namespace {

bool is_in_none_but(const memory::Registration& registration,
                    const std::vector<std::string>& backends) {
  if (backends.empty()) return true;
  return std::ranges::all_of(registration.backends(), [&](const std::string& name) {
    return std::ranges::find(backends, name) != backends.end();
  });
}

Status not_registered(MemoryKind kind, const Descriptor& where,
                      const std::vector<std::string>& backends) {
  std::string with;
  for (const std::string& name : backends) with.append(with.empty() ? " with " : ", ").append(name);
  return error(
      Code::not_found,
      cat(to_string(kind, where), " is not registered", with, backends.empty() ? "" : " alone"),
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

void NixlMemory::add(MemoryKind kind, const std::vector<Descriptor>& places, Registrations made) {
  run::MutexLock lock(mutex_);
  table_.make_room(made.size());
  put(kind, places, std::move(made));
}

void NixlMemory::put(MemoryKind kind, const std::vector<Descriptor>& places, Registrations made) {
  for (std::size_t i = 0; i < made.size(); ++i)
    table_.put({kind, places[i], std::move(made[i]), true});
}

Result<NixlMemory::Registrations> NixlMemory::take(MemoryKind kind,
                                                   const std::vector<Descriptor>& places,
                                                   const std::vector<std::string>& backends) {
  Registrations taken;
  taken.reserve(places.size());
  run::MutexLock lock(mutex_);
  for (const Descriptor& where : places) {
    Entry* const found = table_.find(home_of(kind, where), [&](const Entry& one) {
      return one.where == where && one.kind == kind && is_in_none_but(one.registration, backends);
    });
    if (found != nullptr) {
      taken.push_back(table_.take_out(*found).registration);
      continue;
    }
    put(kind, places, std::move(taken));
    return not_registered(kind, where, backends);
  }
  return taken;
}

}  // namespace towpath::python
