#include <iterator>

#include <towpath/core/check.h>
#include <towpath/memory/free_stretches.h>

namespace towpath::memory::internal {

FreeStretches::FreeStretches(std::uint64_t pages) {
  if (pages > 0) insert({.first = 0, .pages = pages});
}

void FreeStretches::insert(Stretch stretch) {
  by_place_.emplace(stretch.first, stretch.pages);
  by_size_.emplace(stretch.pages, stretch.first);
  free_pages_ += stretch.pages;
}

void FreeStretches::erase(ByPlace::iterator at) {
  by_size_.erase({at->second, at->first});
  free_pages_ -= at->second;
  by_place_.erase(at);
}

std::optional<std::uint64_t> FreeStretches::take(std::uint64_t pages) {
  const auto fit = by_size_.lower_bound({pages, 0});
  if (fit == by_size_.end()) return std::nullopt;
  const auto [found, first] = *fit;
  erase(by_place_.find(first));
  if (found > pages) insert({.first = first + pages, .pages = found - pages});
  return first;
}

void FreeStretches::give_back(Stretch stretch) {
  const auto after = by_place_.lower_bound(stretch.first);
  if (after != by_place_.begin()) {
    const auto before = std::prev(after);
    TOWPATH_CHECK(before->first + before->second <= stretch.first, "pages given back twice");
    if (before->first + before->second == stretch.first) {
      stretch = {.first = before->first, .pages = before->second + stretch.pages};
      erase(before);
    }
  }
  if (after != by_place_.end()) {
    TOWPATH_CHECK(stretch.first + stretch.pages <= after->first, "pages given back twice");
    if (stretch.first + stretch.pages == after->first) {
      stretch.pages += after->second;
      erase(after);
    }
  }
  insert(stretch);
}

std::uint64_t FreeStretches::largest_pages() const noexcept {
  return by_size_.empty() ? 0 : by_size_.rbegin()->first;
}

}  // namespace towpath::memory::internal
