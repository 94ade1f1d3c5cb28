#include "bindings/python/src/nixl_memory.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

#include <towpath/core/text.h>

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
std::size_t NixlMemory::home_of(MemoryKind kind, const Descriptor& where) const noexcept {
  constexpr std::uint64_t kOdd = 0x9e37'79b9'7f4a'7c15;
  std::uint64_t mixed = (where.address ^ (where.device_id << 48U)) * kOdd;
  mixed = (mixed ^ (mixed >> 32U) ^ where.length) * kOdd;
  return (mixed ^ (mixed >> 29U) ^ static_cast<std::uint64_t>(kind)) & (places_.size() - 1);
}

void NixlMemory::make_room(std::size_t more) {
  const std::size_t size = std::bit_ceil(2 * (size_ + more));
  if (size <= places_.size()) return;
  for (Place& place : std::exchange(places_, std::vector<Place>(size)))
    if (!place.is_free()) put(std::move(place));
}

void NixlMemory::put(Place&& place) {
  std::size_t at = home_of(place.kind, place.where);
  while (!places_[at].is_free()) at = next(at);
  places_[at] = std::move(place);
}

NixlMemory::Place* NixlMemory::find(MemoryKind kind, const Descriptor& where,
                                    const std::vector<std::string>& backends) {
  if (places_.empty()) return nullptr;
  for (std::size_t at = home_of(kind, where); !places_[at].is_free(); at = next(at)) {
    Place& place = places_[at];
    if (place.where == where && place.kind == kind && is_in_none_but(place.registration, backends))
      return &place;
  }
  return nullptr;
}

memory::Registration NixlMemory::take_out(Place& place) {
  memory::Registration taken = std::move(place.registration);
  auto gap = static_cast<std::size_t>(&place - places_.data());
  --size_;
  // What stands behind, and would rather stand in the gap or before it, moves up.
  for (std::size_t at = next(gap); !places_[at].is_free(); at = next(at)) {
    const std::size_t mask = places_.size() - 1;
    const std::size_t from_home = (at - home_of(places_[at].kind, places_[at].where)) & mask;
    if (from_home < ((at - gap) & mask)) continue;
    places_[gap] = std::move(places_[at]);
    gap = at;
  }
  return taken;
}

void NixlMemory::add(MemoryKind kind, const std::vector<Descriptor>& places, Registrations made) {
  run::MutexLock lock(mutex_);
  make_room(made.size());
  for (std::size_t i = 0; i < made.size(); ++i) put({kind, places[i], std::move(made[i])});
  size_ += made.size();
}

Result<NixlMemory::Registrations> NixlMemory::take(MemoryKind kind,
                                                   const std::vector<Descriptor>& places,
                                                   const std::vector<std::string>& backends) {
  Registrations taken;
  taken.reserve(places.size());
  run::MutexLock lock(mutex_);
  for (const Descriptor& where : places) {
    if (Place* const place = find(kind, where, backends)) {
      taken.push_back(take_out(*place));
      continue;
    }
    size_ += taken.size();  // all of them back
    for (std::size_t i = 0; i < taken.size(); ++i) put({kind, places[i], std::move(taken[i])});
    return not_registered(kind, where, backends);
  }
  return taken;
}

}  // namespace towpath::python
