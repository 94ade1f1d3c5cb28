// Huge pages: which there are, and memory in them.
//
// Reserved ones (hugetlb) are set aside by the administrator and are either had or not;
// transparent ones are made by the kernel when it can, and may come later or never.
// Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/result.h>
#include <towpath/sys/mapping.h>

namespace towpath::sys {

enum class HugePages : std::uint8_t {
  off,          ///< ordinary pages
  best_effort,  ///< reserved ones, else transparent ones where the kernel makes them
  required,     ///< reserved ones, or nothing
};

enum class PageKind : std::uint8_t { ordinary, transparent, reserved };

/// "ordinary", "transparent", "reserved".
std::string_view name_of(PageKind kind) noexcept;

struct HugePagePool {
  std::uint64_t page_bytes = 0;
  std::uint64_t pages = 0;
  std::uint64_t free_pages = 0;

  friend bool operator==(const HugePagePool&, const HugePagePool&) = default;
};

/// The sizes that this kernel has, ascending; none where it has no huge pages. Errors: corrupt.
Result<std::vector<HugePagePool>> huge_page_pools(const std::string& sys = "/sys");

struct MapPages {
  std::uint64_t size_bytes = 0;
  HugePages huge = HugePages::off;
  /// Of reserved pages; 0: the smallest size that has enough free ones.
  std::uint64_t huge_page_bytes = 0;
  std::string sys = "/sys";
};

struct MappedPages {
  Mapping mapping;  ///< at least what was asked for, rounded up to whole pages
  PageKind kind = PageKind::ordinary;
  std::uint64_t page_bytes = 0;  ///< transparent: of what is mapped at first, ordinary pages
  std::string why_not;           ///< why not better, if better was wanted
};

/// Zeroed memory of this process alone, in pages of the kind that was had.
/// Errors: invalid_argument (size 0, a page size that is no power of two), exhausted (required, and
/// too few pages are free; the message says how many), unsupported (required, and there are none).
Result<MappedPages> map_pages(const MapPages& options);

}  // namespace towpath::sys
