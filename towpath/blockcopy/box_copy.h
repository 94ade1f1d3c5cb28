// Copies a BoxPlan within memory of this process: contiguous bytes, strided pieces, permutations.
//
// It decides nothing: the plan says what goes where. Pieces of usual lengths are copied by code of
// that length, and small pieces whose order differs are walked in tiles, so that neither side is
// read or written a cache line at a time.
// Thread: any; who uses the same bytes at the same time must agree with the others.
#pragma once

#include <span>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/layout/box_plan.h>

namespace towpath::blockcopy {

/// The regions that a plan names by index.
struct CopyRegions {
  std::span<const ByteSpan> source;
  std::span<const ByteSpan> target;
};

/// Cost: no allocation. Errors: out_of_range (a box outside of its region: the plan is of others;
/// nothing of that box or of later ones was copied).
Status copy_boxes(const layout::BoxPlan& plan, const CopyRegions& regions);

/// The same, piece by piece in the plan's own order: what copy_boxes() is held against.
Status copy_boxes_plainly(const layout::BoxPlan& plan, const CopyRegions& regions);

}  // namespace towpath::blockcopy
