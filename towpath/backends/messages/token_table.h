// TokenTable: what is registered, by its token.
//
// Tokens are random, so their low bits say where to look first, and nothing is hashed; an entry
// lies in the table itself, since a pool is thousands of registrations.
//
//   | a | . | c | c' | . |     c' stands behind c, where both would be: linear probing
//
// Invariant: at least half of the places are free, and none between an entry and where it would be.
// Thread: loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <towpath/backends/messages/device_window.h>
#include <towpath/core/descriptor.h>

namespace towpath::backends::messages {

struct Registered {
  std::uint64_t token = 0;  ///< 0: a free place
  const RegionDescriptor* region = nullptr;
  DeviceWindow* window = nullptr;  ///< to the device whose memory it is, null for the host's
};

class TokenTable {
 public:
  /// False: the token is 0, or another one's.
  bool add(const Registered& entry) {
    if (entry.token == 0) return false;
    if (2 * (size_ + 1) > places_.size()) grow();
    Registered& place = places_[place_of(entry.token)];
    if (place.token != 0) return false;
    place = entry;
    ++size_;
    return true;
  }

  /// Harmless when there is none.
  void remove(std::uint64_t token) noexcept {
    if (find(token) == nullptr) return;
    std::size_t gap = place_of(token);
    --size_;
    // What stands behind, and would rather stand in the gap or before it, moves up.
    for (std::size_t at = next(gap); places_[at].token != 0; at = next(at)) {
      const std::size_t from_home = (at - places_[at].token) & mask();
      const std::size_t from_gap = (at - gap) & mask();
      if (from_home < from_gap) continue;
      places_[gap] = places_[at];
      gap = at;
    }
    places_[gap] = {};
  }

  /// Null: none (any more). Valid until something is added or removed.
  const Registered* find(std::uint64_t token) const noexcept {
    if (token == 0 || places_.empty()) return nullptr;
    const Registered& place = places_[place_of(token)];
    return place.token == 0 ? nullptr : &place;
  }

 private:
  std::size_t mask() const noexcept { return places_.size() - 1; }
  std::size_t next(std::size_t at) const noexcept { return (at + 1) & mask(); }
  /// Where it stands, or else would be put.
  std::size_t place_of(std::uint64_t token) const noexcept {
    std::size_t at = token & mask();
    while (places_[at].token != 0 && places_[at].token != token) at = next(at);
    return at;
  }
  void grow() {
    constexpr std::size_t kFirst = 16;  // a power of two, as all sizes are
    const std::vector<Registered> before = std::exchange(
        places_, std::vector<Registered>(places_.empty() ? kFirst : 2 * places_.size()));
    for (const Registered& entry : before)
      if (entry.token != 0) places_[place_of(entry.token)] = entry;
  }

  std::vector<Registered> places_;
  std::size_t size_ = 0;
};

}  // namespace towpath::backends::messages
