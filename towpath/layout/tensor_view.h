// TensorView: a KV cache, or a slice of one, as six named axes over regions.
//
//   axis     block  layer  outer  token  head  dim
//   extent   how many indices                          stride       elements from one to the next
//   first    which of the whole the first one is       region_step  regions from one to the next
//
// The element at indices (i) lies in region `region + sum(i * region_step)`, at element
// `offset + sum(i * stride)`. So one value describes a cache in one region, a region per layer,
// keys and values apart, an object per block, any user's strides, and padding. Axes are
// distinguished by name, never by size: a view whose tokens and heads are swapped is another view.
//
// `first` places a shard in the whole: rank 1 of 2 of a model with 8 heads has heads 4 to 7. Blocks
// have no such place: their numbers are each side's own.
//
// It holds numbers, no memory. Two elements of 4 bits share a byte; a slice that would cut one is
// refused by name.
// Invariants of a made view: every element lies inside its region, which is at most
// kMaxRegionBytes, so sums of offsets never wrap. Thread: immutable.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <towpath/core/result.h>

namespace towpath::layout {

enum class Axis : std::uint8_t { block = 0, layer = 1, outer = 2, token = 3, head = 4, dim = 5 };
inline constexpr std::array kAxes = {Axis::block, Axis::layer, Axis::outer,
                                     Axis::token, Axis::head,  Axis::dim};
std::string_view name_of(Axis axis) noexcept;

struct AxisShape {
  std::uint64_t extent = 1;
  std::uint64_t stride = 0;  ///< elements
  std::uint64_t region_step = 0;
  std::uint64_t first = 0;

  friend bool operator==(const AxisShape&, const AxisShape&) = default;
};

/// One value per axis.
struct Axes {
  std::array<AxisShape, kAxes.size()> shapes;

  AxisShape& operator[](Axis axis) noexcept { return shapes[static_cast<std::size_t>(axis)]; }
  const AxisShape& operator[](Axis axis) const noexcept {
    return shapes[static_cast<std::size_t>(axis)];
  }
  friend bool operator==(const Axes&, const Axes&) = default;
};

/// Indices [first, first + count) of the whole.
struct IndexRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;

  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

/// Axes of a framework's tensor: position i is the axis names[i]. What is not named has one index.
struct NamedTensor {
  std::span<const Axis> names;
  std::span<const std::uint64_t> shape;
  std::span<const std::uint64_t> strides;  ///< elements
};
/// Errors: invalid_argument (lists of different lengths; a name twice).
Result<Axes> axes_of(const NamedTensor& tensor);

/// How far a view reaches into regions, whether they are there or not.
struct Reach {
  std::uint64_t last_region = 0;   ///< index
  std::uint64_t region_bytes = 0;  ///< that each region must hold
};

class TensorView {
 public:
  struct Parts {
    unsigned element_bits = 16;  ///< 1, 2, 4, 8, 16, 32 or 64
    Axes axes;
    std::uint64_t region = 0;
    std::uint64_t offset = 0;  ///< elements

    friend bool operator==(const Parts&, const Parts&) = default;
  };
  /// Errors: invalid_argument (element_bits, an axis without indices), out_of_range (a sum that
  /// wraps; more than kMaxRegionBytes of a region).
  static Result<Reach> reach(const Parts& parts);
  /// `region_bytes`: the size of each region. Errors: invalid_argument (element_bits, an axis
  /// without indices), out_of_range (a region that is not there, or too small; a sum that wraps).
  static Result<TensorView> make(const Parts& parts, std::span<const std::uint64_t> region_bytes);

  const AxisShape& operator[](Axis axis) const noexcept { return parts_.axes[axis]; }
  const Parts& parts() const noexcept { return parts_; }
  unsigned element_bits() const noexcept { return parts_.element_bits; }
  /// Of all that the view names.
  std::uint64_t elements() const noexcept;
  std::uint64_t bytes() const noexcept;

  /// The indices of the whole that this view has.
  IndexRange range(Axis axis) const noexcept;
  /// Those of `range`, which must all be there. Errors: out_of_range; invalid_argument
  /// (sub_byte_split_must_be_whole_bytes: it would begin or end inside a byte).
  Result<TensorView> slice(Axis axis, IndexRange range) const;
  /// The same elements, said to begin at `first` of the whole.
  TensorView placed_at(Axis axis, std::uint64_t first) const;
  /// Heads and dims as one axis of dims. Errors: invalid_argument (heads do not follow each other).
  Result<TensorView> with_heads_joined() const;

  /// Whether no two elements share a place. What is written must be so.
  bool is_apart() const;

  friend bool operator==(const TensorView&, const TensorView&) = default;

 private:
  explicit TensorView(const Parts& parts) : parts_(parts) {}

  Parts parts_;
};

/// What two ranges have in common; none: of no count.
IndexRange common(IndexRange a, IndexRange b) noexcept;

/// Both views cut to what both have of the whole, on every axis but blocks.
struct Overlap {
  TensorView source;
  TensorView target;
};
/// Errors: not_found (nothing in common; the axis is named), or those of slice().
Result<Overlap> intersect(const TensorView& source, const TensorView& target);

/// As many `blocks` of the shape of `view` without gaps, in one region from `offset` (elements) on,
/// with its axes in the order of `view`'s: what lies together there lies together here.
/// Errors: as TensorView::make().
Result<TensorView> packed_like(const TensorView& view, std::uint64_t blocks, std::uint64_t offset,
                               std::uint64_t region_bytes);

/// "16-bit elements; block 10 x 2048, layer 4 (regions 1 apart), outer 2 x 512, ...".
std::string to_string(const TensorView& view);

}  // namespace towpath::layout
