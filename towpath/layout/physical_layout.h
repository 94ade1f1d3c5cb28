// PhysicalLayout: a KV cache of this process: a layout, the regions under it, and the agent that
// knows them. Made by PhysicalLayoutBuilder (builder.h).
//
// It is the only layout that can hand out bytes. A cache of another process is a RemoteLayout,
// which has addresses and nothing to reach them with.
//
// Invariants: all regions are of one location, registered with one agent when it was made, and stay
// alive while any copy of the layout does; registrations end before their memory is freed.
// Thread: immutable (the bytes are as safe as their users make them).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/layout/layout.h>
#include <towpath/memory/region.h>

namespace towpath::layout {

/// What peers must know of the memory before they ask for the layout itself.
struct LayoutMetadata {
  std::string agent_name;
  MemoryKind kind = MemoryKind::system;
  std::uint64_t device_id = 0;

  friend bool operator==(const LayoutMetadata&, const LayoutMetadata&) = default;
};

class PhysicalLayout {
 public:
  struct Parts {
    LayoutConfig config;
    LayoutKind kind = LayoutKind::fully_contiguous;
    Axes axes;  ///< of a strided layout
    std::string agent_name;
    std::vector<memory::SharedRegion> regions;  ///< as the kind wants them, in their order
  };
  /// Errors: as LayoutDescriptor::validate(); invalid_argument (no region, a null one, regions of
  /// different locations, one that is not registered with the agent).
  static Result<PhysicalLayout> make(Parts parts);

  const Layout& layout() const noexcept { return layout_; }
  const LayoutConfig& config() const noexcept { return layout_.config(); }
  const Location& location() const noexcept { return layout_.location(); }
  bool is_fully_contiguous() const noexcept { return layout_.is_fully_contiguous(); }
  LayoutMetadata metadata() const;
  std::span<const memory::SharedRegion> regions() const noexcept { return regions_; }

  /// One page. Errors: as Layout::memory_region().
  Result<Extent> memory_region(PageIndex page) const { return layout_.memory_region(page); }

  /// The bytes of a page; a loan for as long as a copy of this layout lives.
  /// Errors: as memory_region(); unsupported (this process cannot reach the kind: use a transfer).
  Result<ByteSpan> bytes(PageIndex page) const;

  /// What to give other agents. `incarnation` is that of the agent which registered the regions.
  LayoutDescriptor descriptor(std::uint64_t incarnation) const;
  /// The same as bytes, for RemoteLayout::decode() there. Errors: as encode() (layout_codec.h).
  Result<Bytes> serialize(std::uint64_t incarnation) const;

 private:
  PhysicalLayout(Layout layout, std::vector<memory::SharedRegion> regions)
      : layout_(std::move(layout)), regions_(std::move(regions)) {}

  Layout layout_;
  std::vector<memory::SharedRegion> regions_;
};

}  // namespace towpath::layout
