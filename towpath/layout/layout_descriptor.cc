#include <algorithm>

#include <towpath/core/checked.h>
#include <towpath/core/text.h>
#include <towpath/layout/layout_descriptor.h>

namespace towpath::layout {
namespace {

Status check_count(const LayoutDescriptor& descriptor, const Geometry& geometry) {
  const std::uint64_t count = descriptor.regions.size();
  if (count == geometry.num_regions()) return {};
  if (geometry.regions == RegionRule::single)
    return error(Code::invalid_argument,
                 cat("a fully_contiguous layout takes exactly 1 memory region, got ", count),
                 "give one region for the whole cache");
  const bool per_layer = geometry.regions == RegionRule::per_layer;
  return error(Code::invalid_argument,
               cat("Memory region count (", count, ") must match ",
                   per_layer ? "num_layers" : "num_blocks", " (", geometry.num_regions(), ")"),
               cat("give one region per ", per_layer ? "layer" : "block", ", in their order"));
}

Status check_region(const RegionExtent& region, std::uint64_t index, std::uint64_t required,
                    std::uint64_t alignment) {
  if (region.length < required)
    return error(Code::invalid_argument,
                 cat("Memory region ", index, " too small for layout. Required: ", required,
                     " bytes, got: ", region.length, " bytes"),
                 "Geometry::required_sizes() tells the size of each region");
  if (!checked_add(region.address, region.length))
    return error(Code::out_of_range,
                 cat("Memory region ", index, " at ", hex(region.address), " of ", region.length,
                     " bytes wraps around the end of the address space"),
                 "check the address and the length");
  if ((region.address & (alignment - 1)) != 0)
    return error(Code::invalid_argument,
                 cat("Memory region ", index, " begins at ", hex(region.address),
                     ", which is not a multiple of the layout's alignment ", alignment),
                 "allocate the region at that alignment, or lower config.alignment");
  return {};
}

// Looks at the bytes that the layout uses: what a region has beyond them is nobody's.
Status check_apart(const std::vector<RegionExtent>& regions, std::uint64_t used) {
  std::vector<std::uint64_t> order(regions.size());
  for (std::uint64_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::uint64_t a, std::uint64_t b) {
    return regions[a].address < regions[b].address;
  });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const RegionExtent& low = regions[order[i - 1]];
    const RegionExtent& high = regions[order[i]];
    if (high.address - low.address < used)
      return error(Code::invalid_argument,
                   cat("Memory regions ", order[i - 1], " and ", order[i],
                       " overlap: they begin at ", hex(low.address), " and ", hex(high.address),
                       " and each holds ", used, " bytes of the cache"),
                   "give every layer bytes of its own");
  }
  return {};
}

}  // namespace

std::string to_string(const Location& location) {
  return cat(name_of(location.kind), " device ", location.device_id);
}

Status LayoutDescriptor::validate() const {
  TOWPATH_TRY(const Geometry geometry, Geometry::make(config, kind));
  if (location.kind == MemoryKind::object)
    return error(Code::unsupported, "a layout over objects is not built yet",
                 "use regions of another kind of memory");
  TOWPATH_TRY(check_count(*this, geometry));
  for (std::uint64_t i = 0; i < regions.size(); ++i)
    TOWPATH_TRY(check_region(regions[i], i, geometry.region_bytes, config.alignment));
  return check_apart(regions, geometry.region_bytes);
}

}  // namespace towpath::layout
