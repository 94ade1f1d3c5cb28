// FairStart: where a search for one of several elements begins: behind the one that it found last.
// So a series of searches of one list finds each element that is as wanted, and none starves.
//
// It knows lists by a key, and remembers as many as it has rows. Lists that take each other's row
// begin at places that are spread evenly over the list instead. Thread: any.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace towpath::shmem {

class FairStart {
 public:
  /// The first place for which `holds(place)`, from the start of this list on, and around its end.
  template <typename Holds>
  std::optional<std::size_t> find(std::uint64_t key, std::size_t count, const Holds& holds) {
    if (count == 0) return std::nullopt;
    const std::uint64_t mixed = key * kGolden;
    std::atomic<std::uint64_t>& row = rows_[mixed >> (64 - kRowBits)];
    const std::uint64_t tag = mixed << kRowBits >> 32U << 32U;
    std::size_t place = start_of(row.load(std::memory_order_relaxed), tag) % count;
    for (std::size_t step = 0; step < count; ++step, place = place + 1 < count ? place + 1 : 0) {
      if (!holds(place)) continue;
      row.store(tag | ((place + 1) & kPlaceMask), std::memory_order_relaxed);
      return place;
    }
    return std::nullopt;
  }

 private:
  static constexpr unsigned kRowBits = 6;
  static constexpr std::uint64_t kPlaceMask = 0xffff'ffff;
  static constexpr std::uint64_t kGolden = 0x9e37'79b9'7f4a'7c15;  // odd, and of no pattern

  std::uint64_t start_of(std::uint64_t row, std::uint64_t tag) noexcept {
    if ((row & ~kPlaceMask) == tag) return row & kPlaceMask;
    return unknown_.fetch_add(1, std::memory_order_relaxed) * kGolden >> 32U;
  }

  std::array<std::atomic<std::uint64_t>, 1U << kRowBits> rows_{};  // high half: whose; low: place
  std::atomic<std::uint64_t> unknown_{0};
};

}  // namespace towpath::shmem
