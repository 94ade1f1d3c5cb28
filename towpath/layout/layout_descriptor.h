// LayoutDescriptor: all that says where a KV cache lies, as a plain value. It is what a Layout is
// made from, and what one agent gives another about its cache.
//
// It is not permission to touch anything: addresses are those of the agent named in it.
// Invariants: none; validate() says whether it makes sense, Layout::make() and decode ask it.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <towpath/core/identity.h>
#include <towpath/core/memory_kind.h>
#include <towpath/core/result.h>
#include <towpath/layout/layout_config.h>
#include <towpath/layout/strides.h>

namespace towpath::layout {

/// The kind of memory and which of its devices; two files, or two GPUs, are two locations. Objects
/// of one cache are one location, of device 0, in which each region has an id of its own.
struct Location {
  MemoryKind kind = MemoryKind::system;
  std::uint64_t device_id = 0;

  friend bool operator==(const Location&, const Location&) = default;
};

/// "system device 0".
std::string to_string(const Location& location);

/// One region of the cache; the address is an offset where the kind is disk or object.
struct RegionExtent {
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint64_t device_id = 0;  ///< objects: which one; of all other kinds the location says it

  friend bool operator==(const RegionExtent&, const RegionExtent&) = default;
};

/// By which transfers know the region.
constexpr std::uint64_t device_id_of(const Location& location,
                                     const RegionExtent& region) noexcept {
  return location.kind == MemoryKind::object ? region.device_id : location.device_id;
}

struct LayoutDescriptor {
  LayoutConfig config;
  LayoutKind kind = LayoutKind::fully_contiguous;
  /// Of a strided layout: the extents of `config` with strides in elements, from the regions'
  /// beginnings, and region steps. Of every other kind: nothing.
  Axes axes;
  Location location;
  /// Whose memory. An incarnation of 0 means this process.
  AgentIdentity agent;
  std::vector<RegionExtent> regions;

  /// Whether config, kind, axes and regions fit each other.
  /// Errors: as Geometry::make; invalid_argument (count of regions, a region too small, one that
  /// does not begin at a multiple of config.alignment, two that overlap, a device id where there
  /// can be none); out_of_range (a region wraps around the end of the address space); unsupported
  /// (objects in another kind than block_separate: an object is put whole, as copies put blocks).
  Status validate() const;

  friend bool operator==(const LayoutDescriptor&, const LayoutDescriptor&) = default;
};

}  // namespace towpath::layout
