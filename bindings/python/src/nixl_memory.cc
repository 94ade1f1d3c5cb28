#include "bindings/python/src/nixl_memory.h"

#include <algorithm>

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
std::size_t NixlMemory::Hash::operator()(const Key& key) const noexcept {
  constexpr std::uint64_t kOdd = 0x9e37'79b9'7f4a'7c15;
  std::uint64_t mixed = (key.where.address ^ (key.where.device_id << 48U)) * kOdd;
  mixed = (mixed ^ (mixed >> 32U) ^ key.where.length) * kOdd;
  return mixed ^ (mixed >> 29U) ^ static_cast<std::uint64_t>(key.kind);
}

void NixlMemory::add(MemoryKind kind, const std::vector<Descriptor>& places, Registrations made) {
  run::MutexLock lock(mutex_);
  held_.reserve(held_.size() + made.size());
  for (std::size_t i = 0; i < made.size(); ++i)
    held_.emplace(Key{kind, places[i]}, std::move(made[i]));
}

NixlMemory::Held::node_type NixlMemory::take(const Key& key,
                                             const std::vector<std::string>& backends) {
  const auto [first, last] = held_.equal_range(key);
  for (auto at = first; at != last; ++at) {
    if (is_in_none_but(at->second, backends)) return held_.extract(at);
  }
  return {};
}

Status NixlMemory::remove(MemoryKind kind, const std::vector<Descriptor>& places,
                          const std::vector<std::string>& backends) {
  std::vector<Held::node_type> taken;
  taken.reserve(places.size());
  {
    run::MutexLock lock(mutex_);
    for (const Descriptor& where : places) {
      auto node = take({kind, where}, backends);
      if (node.empty()) {
        for (auto& other : taken) held_.insert(std::move(other));
        return not_registered(kind, where, backends);
      }
      taken.push_back(std::move(node));
    }
  }
  Status status;
  for (auto& node : taken) {
    if (Status released = node.mapped().release(); !released.ok()) status = std::move(released);
  }
  return status;
}

}  // namespace towpath::python
