#include <iterator>

#include <towpath/core/check.h>
#include <towpath/memory/free_extents.h>

namespace towpath::memory::internal {

FreeExtents::FreeExtents(std::uint64_t pages) {
  if (pages > 0) insert({.first = 0, .pages = pages});
}

void FreeExtents::insert(Extent extent) {
  by_place_.emplace(extent.first, extent.pages);
  by_size_.emplace(extent.pages, extent.first);
  free_pages_ += extent.pages;
}

void FreeExtents::erase(ByPlace::iterator at) {
  by_size_.erase({at->second, at->first});
  free_pages_ -= at->second;
  by_place_.erase(at);
}

std::optional<std::uint64_t> FreeExtents::take(std::uint64_t pages, std::uint64_t step) {
  for (auto fit = by_size_.lower_bound({pages, 0}); fit != by_size_.end(); ++fit) {
    const auto [found, first] = *fit;
    const std::uint64_t before = (step - first % step) % step;
    if (found - pages < before) continue;
    const std::uint64_t taken = first + before, behind = found - before - pages;
    erase(by_place_.find(first));
    if (before > 0) insert({.first = first, .pages = before});
    if (behind > 0) insert({.first = taken + pages, .pages = behind});
    return taken;
  }
  return std::nullopt;
}

void FreeExtents::give_back(Extent extent) {
  const auto after = by_place_.lower_bound(extent.first);
  if (after != by_place_.begin()) {
    const auto before = std::prev(after);
    TOWPATH_CHECK(before->first + before->second <= extent.first, "pages given back twice");
    if (before->first + before->second == extent.first) {
      extent = {.first = before->first, .pages = before->second + extent.pages};
      erase(before);
    }
  }
  if (after != by_place_.end()) {
    TOWPATH_CHECK(extent.first + extent.pages <= after->first, "pages given back twice");
    if (extent.first + extent.pages == after->first) {
      extent.pages += after->second;
      erase(after);
    }
  }
  insert(extent);
}

std::uint64_t FreeExtents::largest_pages() const noexcept {
  return by_size_.empty() ? 0 : by_size_.rbegin()->first;
}

}  // namespace towpath::memory::internal
