// FreeExtents: which pages of an arena are free. Best fit, merged at once.
//
// It is not an allocator: it knows neither bytes nor owners. Kept apart from the arena so that it
// can be tested against a bitmap.
// Invariants: both indexes hold the same extents; no two of them touch.
// Thread: none of its own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace towpath::memory::internal {

class FreeExtents {
 public:
  /// All of [0, pages) is free.
  explicit FreeExtents(std::uint64_t pages);

  /// The first page of `pages` (at least 1) together: from the begin of the smallest extent that
  /// fits, the lowest among equals. Nothing when none fits. It is a multiple of `step`, for which a
  /// part of the extent may stay free before it.
  std::optional<std::uint64_t> take(std::uint64_t pages, std::uint64_t step = 1);

  struct Extent {
    std::uint64_t first = 0;
    std::uint64_t pages = 0;
  };
  /// What take() gave, all of it and once; the caller sees to that.
  void give_back(Extent extent);

  std::uint64_t free_pages() const noexcept { return free_pages_; }
  std::uint64_t largest_pages() const noexcept;

 private:
  using ByPlace = std::map<std::uint64_t, std::uint64_t>;  // first page -> pages

  void insert(Extent extent);
  void erase(ByPlace::iterator at);

  ByPlace by_place_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;  // (pages, first page)
  std::uint64_t free_pages_ = 0;
};

}  // namespace towpath::memory::internal
