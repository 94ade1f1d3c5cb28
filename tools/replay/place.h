// Place: where prefill finds a block: one of its tiers, a neighbour, or a miss. Values for each
// place stand in one order, so that whoever counts, sends, draws or prints them names no place.
// Thread: immutable.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace towpath::tools::replay {

enum class Place : std::uint8_t { host, disk, object, peers, miss };

/// The fastest first.
inline constexpr std::array kTiers{Place::host, Place::disk, Place::object, Place::peers};
inline constexpr std::array kPlaces{Place::host, Place::disk, Place::object, Place::peers,
                                    Place::miss};

constexpr std::string_view name_of(Place place) noexcept {
  constexpr std::array<std::string_view, kPlaces.size()> kNames{"host", "disk", "object", "peers",
                                                                "miss"};
  return kNames[static_cast<std::size_t>(place)];
}

template <typename Value>
class ByPlace {
 public:
  ByPlace() = default;
  explicit ByPlace(const Value& each) { values_.fill(each); }

  Value& operator[](Place place) { return values_[static_cast<std::size_t>(place)]; }
  const Value& operator[](Place place) const { return values_[static_cast<std::size_t>(place)]; }

 private:
  std::array<Value, kPlaces.size()> values_{};
};

}  // namespace towpath::tools::replay
