// Tensor: how the elements of an array lie in memory, and such memory of somebody else's as a
// region.
//
// It is no array type: it computes places and never touches an element.
// Invariants: a TensorRegion covers exactly the bytes from its lowest element to the end of its
// highest; where the strides leave gaps, bytes of others lie between.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <towpath/core/result.h>
#include <towpath/memory/borrowed.h>
#include <towpath/memory/region.h>

namespace towpath::memory {

inline constexpr std::size_t kMostDimensions = 64;

struct TensorShape {
  std::vector<std::int64_t> extents;  ///< empty: a single element
  /// In elements; may be 0 or negative. Empty: row-major without gaps.
  std::vector<std::int64_t> strides;
  std::uint64_t element_bytes = 0;
};

/// The strides of row-major order without gaps. Errors: invalid_argument (a negative extent),
/// out_of_range (too large for 64 bits).
Result<std::vector<std::int64_t>> contiguous_strides(const std::vector<std::int64_t>& extents);

/// Elements; 1 without dimensions, 0 when an extent is 0. Errors: as above.
Result<std::uint64_t> element_count(const TensorShape& shape);

/// Whether the elements lie row-major without gaps. Strides of extents of 1 do not matter.
/// Errors: as above; invalid_argument (strides of another count than extents).
Result<bool> is_contiguous(const TensorShape& shape);

/// Bytes from the first element (index 0 of each dimension) to the lowest, and between the lowest
/// and the end of the highest.
struct TensorExtent {
  std::uint64_t before = 0;  ///< not 0 with negative strides only
  std::uint64_t bytes = 0;   ///< 0: no elements
};
/// Errors: as is_contiguous; invalid_argument (elements of 0 bytes, too many dimensions).
Result<TensorExtent> extent_of(const TensorShape& shape);

struct BorrowedTensor {
  MemoryKind kind = MemoryKind::device;  ///< device, pinned or system
  std::uint64_t address = 0;             ///< of the first element
  std::uint64_t device_id = 0;
  TensorShape shape;
  std::shared_ptr<const void> keep_alive;  ///< as BorrowedMemory's
};

class TensorRegion final : public Region {
  struct Private {};

 public:
  /// Errors: as extent_of and BorrowedRegion::create; out_of_range (before the begin of memory).
  static Result<std::shared_ptr<TensorRegion>> borrow(BorrowedTensor tensor);

  TensorRegion(Private, TensorShape shape, std::shared_ptr<BorrowedRegion> bytes, bool contiguous)
      : shape_(std::move(shape)), bytes_(std::move(bytes)), contiguous_(contiguous) {}

  RegionDescriptor descriptor() const override { return bytes_->descriptor(); }
  const TensorShape& shape() const noexcept { return shape_; }
  bool contiguous() const noexcept { return contiguous_; }

 private:
  const TensorShape shape_;
  const std::shared_ptr<BorrowedRegion> bytes_;
  const bool contiguous_;
};

}  // namespace towpath::memory
