// HandleTable: things by integers, as NIXL's users hold them.
//
// The integer of a thing that is gone is never that of another: it says besides the place how often
// that place was given away.
// Thread: none of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace towpath::python {

template <typename T>
class HandleTable {
 public:
  std::uint64_t add(T thing) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(places_.size()));
      places_.emplace_back();
    }
    const std::uint32_t index = free_.back();
    places_[index].thing.emplace(std::move(thing));
    free_.pop_back();
    return (std::uint64_t{places_[index].uses} << kIndexBits) + index + 1;
  }
  /// Null: it is gone, or there never was one. Until the next add().
  const T* find(std::uint64_t handle) const noexcept {
    const std::uint64_t index = index_of(handle);
    if (index >= places_.size() || places_[index].uses != handle >> kIndexBits) return nullptr;
    return places_[index].thing ? &*places_[index].thing : nullptr;
  }
  /// Takes it out.
  std::optional<T> take(std::uint64_t handle) {
    if (find(handle) == nullptr) return std::nullopt;
    const std::uint64_t index = index_of(handle);
    Place& place = places_[index];
    std::optional<T> taken(std::move(place.thing));
    place.thing.reset();
    ++place.uses;
    free_.push_back(static_cast<std::uint32_t>(index));
    return taken;
  }

 private:
  static constexpr int kIndexBits = 32;
  static constexpr std::uint64_t kIndexMask = (std::uint64_t{1} << kIndexBits) - 1;
  static std::uint64_t index_of(std::uint64_t handle) noexcept {
    return (handle & kIndexMask) - 1;  // of 0: past all
  }

  struct Place {
    std::uint32_t uses = 0;
    std::optional<T> thing;
  };
  std::vector<Place> places_;
  std::vector<std::uint32_t> free_;
};

}  // namespace towpath::python
