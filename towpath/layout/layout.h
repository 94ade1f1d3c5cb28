// Layout: a function from (block, layer, outer, token, head, dim) to bytes, over regions whose
// addresses are known.
//
// A pure value: it holds numbers, owns no memory and cannot be dereferenced. What owns the bytes is
// a PhysicalLayout; what lives in another process is a RemoteLayout.
//
// Invariants: geometry and regions fit each other, so every page lies inside its region.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <towpath/core/identity.h>
#include <towpath/core/memory_kind.h>
#include <towpath/core/result.h>
#include <towpath/layout/layout_config.h>
#include <towpath/layout/strides.h>
#include <towpath/layout/tensor_view.h>

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

/// All that says where a KV cache lies, as a plain value. It is what a Layout is made from, and
/// what one agent gives another about its cache.
///
/// It is not permission to touch anything: addresses are those of the agent named in it.
/// Invariants: none; validate() says whether it makes sense, Layout::make() and decode ask it.
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

/// Where a page is.
struct Extent {
  std::uint64_t region = 0;   ///< index
  std::uint64_t address = 0;  ///< or offset into the file
  std::uint64_t size = 0;     ///< bytes

  friend bool operator==(const Extent&, const Extent&) = default;
};

class Layout {
 public:
  /// Errors: as LayoutDescriptor::validate().
  static Result<Layout> make(LayoutDescriptor descriptor);

  const LayoutConfig& config() const noexcept { return descriptor_.config; }
  LayoutKind kind() const noexcept { return descriptor_.kind; }
  const Location& location() const noexcept { return descriptor_.location; }
  const AgentIdentity& agent() const noexcept { return descriptor_.agent; }
  std::span<const RegionExtent> regions() const noexcept { return descriptor_.regions; }
  const LayoutDescriptor& descriptor() const noexcept { return descriptor_; }
  const Geometry& geometry() const noexcept { return geometry_; }

  /// Whether all layers of a block lie in one region, one behind the other. Blocks may still have
  /// padding between them (config.alignment).
  bool is_fully_contiguous() const noexcept { return kind() == LayoutKind::fully_contiguous; }

  /// The same as axes: extents_of(config) with strides.
  TensorView view() const;
  /// The same bytes, taken for blocks of another format: what was written there in that order reads
  /// right by this view, and by no other. Errors: as LayoutConfig::validate() (formats but nhd need
  /// num_heads), unsupported (no such format over this kind of layout).
  Result<TensorView> view_as(BlockFormat format) const;

  /// One page. Errors: out_of_range, as Geometry::place(); unsupported (as check_pages()).
  Result<Extent> memory_region(PageIndex page) const;

  friend bool operator==(const Layout&, const Layout&) = default;

 private:
  Layout(LayoutDescriptor descriptor, const Geometry& geometry)
      : descriptor_(std::move(descriptor)), geometry_(geometry) {}

  LayoutDescriptor descriptor_;
  Geometry geometry_;
};

/// Whether pages lie together. Errors: unsupported (they do not, in a universal block, or need not,
/// in a strided layout: use view()).
Status check_pages(const Layout& layout);

/// Whether an address means the same byte to both: the same location of the same agent, or of this
/// process. Host memory is one, pinned or not, whatever device it is said to be of.
bool share_address_space(const Layout& a, const Layout& b) noexcept;

/// "fully_contiguous over system device 0: 2 blocks x 3 layers x ...".
std::string to_string(const Layout& layout);

}  // namespace towpath::layout
