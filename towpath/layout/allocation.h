// How one allocation is cut into the regions of a layout.
//
// Region 0 begins where the allocation does. Each later one begins where the one before ended,
// rounded up so that its absolute address is a multiple of kRegionAlignment, or of the layout's own
// alignment where that is larger:
//
//   sizes 256, 256, 256 at 4096:  [0, 256)  [512, 768)  [1024, 1280)  of 1790 reserved bytes
//
// Reserving is done before the address is known, so it allows for the worst.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <towpath/core/result.h>
#include <towpath/layout/layout.h>
#include <towpath/memory/region.h>

namespace towpath::layout {

inline constexpr std::uint64_t kRegionAlignment = 512;
/// What an allocation's own start is always a multiple of: memory is page-aligned, files begin at
/// 0.
inline constexpr std::uint64_t kBaseAlignment = 4096;

/// Bytes to allocate for regions of `sizes` in a layout of `alignment` (a power of two).
/// Errors: out_of_range (the sum does not fit 64 bits).
Result<std::uint64_t> reserve_bytes(std::span<const std::uint64_t> sizes, std::uint64_t alignment);

/// Where in `base` each region lies.
/// Errors: out_of_range (an offset or address wraps, or `base` is too small).
Result<std::vector<memory::Part>> cut(const RegionExtent& base,
                                      std::span<const std::uint64_t> sizes,
                                      std::uint64_t alignment);

}  // namespace towpath::layout
