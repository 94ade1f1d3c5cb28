// View: a part of a region, as a region of its own. It keeps its base alive.
//
// It owns no bytes. Its address is the base's plus the offset, so that of a disk view is an offset
// into the file; a view of shared memory also reports where in the memfd it begins.
// Invariants: lies within its base; may be empty; views of views are views of the same bytes.
// Thread: immutable.
#pragma once

#include <memory>

#include <towpath/core/result.h>
#include <towpath/memory/region.h>

namespace towpath::memory {

class View final : public Region {
  struct Private {};

 public:
  /// Errors: invalid_argument (no base), out_of_range (the part wraps or leaves the base).
  static Result<std::shared_ptr<View>> create(SharedRegion base, const Part& part);

  /// The same by address, for who holds a pointer into `base`. `length` may be 0.
  /// Errors: as above; out_of_range (another device's, or before the base).
  static Result<std::shared_ptr<View>> at_address(SharedRegion base, const Descriptor& part);

  View(Private, SharedRegion base, RegionDescriptor self, std::uint64_t offset)
      : base_(std::move(base)), self_(std::move(self)), offset_(offset) {}

  RegionDescriptor descriptor() const override { return self_; }
  const Registration* registration() const override { return base_->registration(); }

  const SharedRegion& base() const noexcept { return base_; }
  /// Bytes from the begin of base().
  std::uint64_t offset() const noexcept { return offset_; }

 private:
  SharedRegion base_;
  RegionDescriptor self_;
  std::uint64_t offset_;
};

/// What `part` of a region is, described: address and place in the memfd moved, length replaced.
/// Errors: out_of_range (the part wraps or leaves the region).
Result<RegionDescriptor> describe_part(const RegionDescriptor& whole, const Part& part);

}  // namespace towpath::memory
