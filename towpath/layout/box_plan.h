// BoxPlan: a copy between two views of KV caches as boxes: equal pieces at every point of a few
// dimensions (PieceBox), one box where all is regular.
//
// It is the form that an executor on a CPU or a GPU takes, since whole permutations are one value:
// a block from [token, head, dim] to [head, token, dim] is one box. to_runs() makes of it the form
// that transfers take (plan.h). Like a Plan it moves nothing and knows regions by index.
//
// Cost: time and size grow with groups of blocks, and with regions that one copy touches.
// Thread: immutable.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/core/result.h>
#include <towpath/layout/plan.h>
#include <towpath/layout/selection.h>
#include <towpath/layout/tensor_view.h>

namespace towpath::layout {

// PieceBox: a regular copy as pieces of equal length at every point of a few dimensions, and the
// folding that makes few long pieces of many short ones.
//
//   pieces of 64 bytes x {2 outers at 64 -> 64} x {10 blocks at 256 -> 128}
//   becomes
//   pieces of 128 bytes x {10 blocks at 256 -> 128}
//
// Lengths and strides are bytes; while a plan is made, elements. It checks nothing. Its user has
// proven that every piece lies inside regions of at most kMaxRegionBytes, so that stride * extent
// cannot wrap. Thread: immutable.
class PieceBox {
 public:
  /// The same again, `extent` times, strides in bytes apart.
  struct Dimension {
    std::uint64_t extent = 1;
    std::uint64_t source_stride = 0;
    std::uint64_t target_stride = 0;

    friend bool operator==(const Dimension&, const Dimension&) = default;
  };

  explicit PieceBox(std::uint64_t length) noexcept : length_(length) {}

  /// Innermost first; at most kMaxRank times. A dimension of one is no dimension.
  void add(const Dimension& dimension) noexcept {
    if (dimension.extent > 1) dimensions_[rank_++] = dimension;
  }
  /// Merges until nothing merges any more. The bytes named stay the same.
  void fold() noexcept {
    while (lengthen() || chain()) {
    }
  }
  /// Removes the longest dimension (the innermost of equal ones); one of extent 1 if there is none.
  Dimension take_longest() noexcept;

  /// From elements to bytes, in place. False: something is no whole bytes.
  bool to_bytes(unsigned element_bits) noexcept;

  std::uint64_t length() const noexcept { return length_; }
  std::uint64_t count() const noexcept;  ///< pieces
  /// Innermost first.
  std::span<const Dimension> dimensions() const noexcept { return {dimensions_.data(), rank_}; }

  /// Five axes within a block, a range of blocks, its repeats, and what merged() adds.
  static constexpr std::size_t kMaxRank = 8;

  friend bool operator==(const PieceBox& a, const PieceBox& b) noexcept;

 private:
  bool lengthen() noexcept;
  bool chain() noexcept;
  void erase(std::size_t index) noexcept;

  std::uint64_t length_;
  std::size_t rank_ = 0;
  std::array<Dimension, kMaxRank> dimensions_;
};

/// Offsets, lengths and strides in bytes; dimensions innermost of the views first, then folded.
struct CopyBox {
  std::uint64_t source_region = 0;
  std::uint64_t source_offset = 0;
  std::uint64_t target_region = 0;
  std::uint64_t target_offset = 0;
  PieceBox pieces{0};
};

/// How the bytes must move, from the simplest to the dearest.
enum class CopyForm : std::uint8_t {
  empty,
  contiguous,  ///< one piece
  strided,     ///< one box, or several, each in the same order on both sides
  permuted,    ///< the order of bytes differs within a box
};
std::string_view name_of(CopyForm form) noexcept;

class BoxPlan {
 public:
  BoxPlan() = default;
  explicit BoxPlan(std::vector<CopyBox> boxes);

  std::span<const CopyBox> boxes() const noexcept { return boxes_; }
  bool empty() const noexcept { return boxes_.empty(); }
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::uint64_t pieces() const noexcept { return pieces_; }
  /// Of the shortest one; 0: none.
  std::uint64_t shortest_piece() const noexcept { return shortest_; }
  CopyForm form() const;

 private:
  std::vector<CopyBox> boxes_;
  std::uint64_t bytes_ = 0;
  std::uint64_t pieces_ = 0;
  std::uint64_t shortest_ = 0;
};

/// What copying costs somewhere: measured, or declared.
struct CopyCosts {
  double bytes_per_second = 10e9;
  Duration per_piece{0};
  Duration per_box{0};
};
Duration price(const BoxPlan& plan, const CopyCosts& costs);

/// The copy of `blocks` between views that have the same indices on every other axis: what
/// intersect() gives, or slices of the user's.
///
/// Errors: invalid_argument (elements of other widths; another extent, with the axis; a target
///         view whose elements share bytes; pieces that are no whole bytes; blocks as
///         group_blocks()), out_of_range (block IDs).
Result<BoxPlan> plan_boxes(const TensorView& source, const TensorView& target,
                           std::span<const BlockRange> blocks, bool same_blocks = false);
/// Between two layouts, with all checks of plan() (plan.h). Errors: as plan().
Result<BoxPlan> plan_boxes(const Layout& source, const Layout& target,
                           std::span<const BlockRange> blocks,
                           LayerRange layers = LayerRange::all());
/// The same for a selection that group_blocks() has checked.
Result<BoxPlan> plan_groups_of_blocks(const TensorView& source, const TensorView& target,
                                      std::span<const BlockGroup> groups);

/// Boxes that differ only in where they begin, at regular distances, become one.
BoxPlan merged(BoxPlan plan);

/// A run per point of all dimensions of a box but its longest.
Plan to_runs(const BoxPlan& plan);

}  // namespace towpath::layout
