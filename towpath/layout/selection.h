// Which blocks and layers a copy takes, and the same as few regular groups.
//
// Planning must not look at every block of a long range, so a selection is made of ranges, and
// ranges that follow each other regularly become one BlockGroup:
//
//   pairs   4->0 5->1 8->2 9->3 12->4 13->5
//   ranges  {4, 0, 2} {8, 2, 2} {12, 4, 2}
//   group   {source 4, target 0, count 2, repeats 3, source_step 4, target_step 2}
//
// Thread: immutable.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <towpath/core/result.h>

namespace towpath::layout {

/// One block to copy: IDs on either side.
struct BlockPair {
  std::uint64_t source = 0;
  std::uint64_t target = 0;
};

/// `count` blocks one behind the other on both sides.
struct BlockRange {
  std::uint64_t source_first = 0;
  std::uint64_t target_first = 0;
  std::uint64_t count = 1;

  friend bool operator==(const BlockRange&, const BlockRange&) = default;
};

/// The layers [first, first + count); the same on both sides.
struct LayerRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;

  static constexpr LayerRange all() noexcept {
    return {0, UINT64_MAX};
  }  ///< however many there are
  friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

/// A range of blocks, and the same again `repeats` times, steps (in blocks) apart.
struct BlockGroup {
  BlockRange range;
  std::uint64_t repeats = 1;
  std::uint64_t source_step = 0;
  std::uint64_t target_step = 0;

  friend bool operator==(const BlockGroup&, const BlockGroup&) = default;
};

/// How many blocks there are on either side, and whether they are the same blocks.
struct BlockBounds {
  std::uint64_t source_blocks = 0;
  std::uint64_t target_blocks = 0;
  bool same_blocks = false;
};

/// Neighbouring pairs that go on where the last one ended become one range; order is kept.
std::vector<BlockRange> ranges_of(std::span<const BlockPair> pairs);

/// Checks a selection and folds it, in the order of target blocks. Ranges of no blocks are skipped;
/// a source block may be read many times.
///
/// Cost:   n log n in ranges, n where they come in the order of their targets; not in blocks.
/// Errors: out_of_range (a block ID, with its range, side and count); invalid_argument (a target
///         block twice; with same_blocks also a block that is both source and target).
Result<std::vector<BlockGroup>> group_blocks(std::span<const BlockRange> ranges,
                                             const BlockBounds& bounds);

}  // namespace towpath::layout
