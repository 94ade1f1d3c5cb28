#include <algorithm>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/layout/allocation.h>

namespace towpath::layout {
namespace {

std::uint64_t later_alignment(std::uint64_t alignment) {
  return std::max(kRegionAlignment, alignment);
}
// Region 0 needs rounding only where the layout asks for more than every allocation gives.
std::uint64_t first_alignment(std::uint64_t alignment) {
  return alignment > kBaseAlignment ? alignment : 1;
}

Status overflow(std::string_view what) {
  return error(Code::out_of_range, cat(what, " overflow while placing the regions of a layout"),
               "the cache must be smaller than 2^64 bytes");
}

}  // namespace

Result<std::uint64_t> reserve_bytes(std::span<const std::uint64_t> sizes, std::uint64_t alignment) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::uint64_t step = i == 0 ? first_alignment(alignment) : later_alignment(alignment);
    const auto sum = checked_add(total, sizes[i]);
    if (!sum) return overflow("allocation size");
    const auto padded = checked_add(*sum, step - 1);
    if (!padded) return overflow("allocation alignment padding");
    total = *padded;
  }
  return total;
}

Result<std::vector<memory::Part>> cut(const RegionExtent& base,
                                      std::span<const std::uint64_t> sizes,
                                      std::uint64_t alignment) {
  std::vector<memory::Part> parts;
  parts.reserve(sizes.size());
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::uint64_t step = i == 0 ? first_alignment(alignment) : later_alignment(alignment);
    const auto address = checked_add(base.address, end);
    if (!address) return overflow("address");
    const auto aligned = align_up(*address, step);
    if (!aligned) return overflow("alignment");
    const std::uint64_t offset = *aligned - base.address;
    const auto next = checked_add(offset, sizes[i]);
    if (!next) return overflow("offset");
    if (*next > base.length)
      return error(Code::out_of_range,
                   cat("the allocation of ", base.length, " bytes is insufficient: region ", i,
                       " ends at ", *next, " with padding"),
                   "allocate what reserve_bytes() says");
    parts.push_back({.offset = offset, .size_bytes = sizes[i]});
    end = *next;
  }
  return parts;
}

}  // namespace towpath::layout
