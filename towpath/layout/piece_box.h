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
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace towpath::layout {

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

}  // namespace towpath::layout
