#include <algorithm>
#include <tuple>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/layout/layout.h>

namespace towpath::layout {
namespace {

Status check_count(const LayoutDescriptor& descriptor, const Geometry& geometry) {
  const std::uint64_t count = descriptor.regions.size();
  if (count == geometry.num_regions) return {};
  if (geometry.regions == RegionRule::single)
    return error(Code::invalid_argument,
                 cat("a fully_contiguous layout takes exactly 1 memory region, got ", count),
                 "give one region for the whole cache");
  if (geometry.regions == RegionRule::by_axes)
    return error(Code::invalid_argument,
                 cat("Memory region count (", count, ") must match that of the axes (",
                     geometry.num_regions, ")"),
                 "give a region for each that the region steps lead to");
  const bool per_layer = geometry.regions == RegionRule::per_layer;
  return error(Code::invalid_argument,
               cat("Memory region count (", count, ") must match ",
                   per_layer ? "num_layers" : "num_blocks", " (", geometry.num_regions, ")"),
               cat("give one region per ", per_layer ? "layer" : "block", ", in their order"));
}

Status check_region(const RegionExtent& region, std::uint64_t index, std::uint64_t required,
                    std::uint64_t alignment) {
  if (region.length < required)
    return error(Code::invalid_argument,
                 cat("Memory region ", index, " too small for layout. Required: ", required,
                     " bytes, got: ", region.length, " bytes"),
                 "Geometry::required_sizes() reports the size of each region");
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
    return std::tie(regions[a].device_id, regions[a].address) <
           std::tie(regions[b].device_id, regions[b].address);
  });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const RegionExtent& low = regions[order[i - 1]];
    const RegionExtent& high = regions[order[i]];
    if (high.device_id == low.device_id && high.address - low.address < used)
      return error(Code::invalid_argument,
                   cat("Memory regions ", order[i - 1], " and ", order[i],
                       " overlap: they begin at ", hex(low.address), " and ", hex(high.address),
                       " and each holds ", used, " bytes of the cache"),
                   "give every layer bytes of its own");
  }
  return {};
}

// Only objects have ids of their own, and only a block is put whole.
Status check_ids(const LayoutDescriptor& descriptor) {
  const bool are_objects = descriptor.location.kind == MemoryKind::object;
  if (are_objects && descriptor.kind != LayoutKind::block_separate)
    return error(Code::unsupported,
                 cat("a ", name_of(descriptor.kind),
                     " layout over objects: an object is put whole, and no copy has to put all of "
                     "a region"),
                 "use block_separate: an object for each block");
  const bool is_extra =
      are_objects ? descriptor.location.device_id != 0
                  : std::ranges::any_of(descriptor.regions,
                                        [](const RegionExtent& r) { return r.device_id != 0; });
  if (!is_extra) return {};
  return error(
      Code::invalid_argument,
      cat("a device id where there is none in a layout over ", to_string(descriptor.location)),
      "objects are distinguished by their regions' ids, all else by the location's");
}

}  // namespace

std::string to_string(const Location& location) {
  return cat(name_of(location.kind), " device ", location.device_id);
}

Status LayoutDescriptor::validate() const {
  TOWPATH_TRY(const Geometry geometry, Geometry::make(config, kind, axes));
  TOWPATH_TRY(check_ids(*this));
  TOWPATH_TRY(check_count(*this, geometry));
  for (std::uint64_t i = 0; i < regions.size(); ++i)
    TOWPATH_TRY(check_region(regions[i], i, geometry.region_bytes, config.alignment));
  return check_apart(regions, geometry.region_bytes);
}

}  // namespace towpath::layout
