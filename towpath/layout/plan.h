// plan(): which bytes go where when blocks are copied between two layouts, as merged runs.
//
// A Plan is a value. It can be printed, compared, counted and priced; it moves nothing and knows no
// memory, only regions by index and offsets into them. A CopyRun is `count` equal pieces:
//
//   source region, offset --> [length]  .. source_stride ..  [length]  ..  [length]
//   target region, offset --> [length] .. target_stride .. [length] .. [length]
//
// Runs are merged as far as strides go: pieces that touch on both sides are one longer piece, and
// pieces at constant strides are one run. A whole cache between two alike fully contiguous layouts
// is one piece. Only what touches by chance across ranges that are not regular stays apart.
//
// Cost: time and size grow with runs, never with blocks: at most groups of blocks * layers *
// outers, and where formats differ, times the lesser of heads and tokens. BoxPlan (box_plan.h) says
// such a permutation in one value. Thread: immutable.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <towpath/core/descriptor.h>
#include <towpath/core/result.h>
#include <towpath/layout/layout.h>
#include <towpath/layout/selection.h>

namespace towpath::layout {

/// Offsets, lengths and strides in bytes. A run of one piece has strides 0.
struct CopyRun {
  std::uint64_t source_region = 0;
  std::uint64_t source_offset = 0;
  std::uint64_t target_region = 0;
  std::uint64_t target_offset = 0;
  std::uint64_t length = 0;
  std::uint64_t count = 1;
  std::uint64_t source_stride = 0;
  std::uint64_t target_stride = 0;

  friend bool operator==(const CopyRun&, const CopyRun&) = default;
};

class Plan {
 public:
  Plan() = default;
  explicit Plan(std::vector<CopyRun> runs);

  std::span<const CopyRun> runs() const noexcept { return runs_; }
  bool empty() const noexcept { return runs_.empty(); }
  std::uint64_t bytes() const noexcept { return bytes_; }    ///< that the plan moves
  std::uint64_t pieces() const noexcept { return pieces_; }  ///< extents that lie together

  friend bool operator==(const Plan& a, const Plan& b) { return a.runs_ == b.runs_; }

 private:
  std::vector<CopyRun> runs_;
  std::uint64_t bytes_ = 0;
  std::uint64_t pieces_ = 0;
};

/// The copy of `blocks` in `layers` from `source` to `target`. Every check holds in every build.
///
/// Shape:  layers, outers, tokens per block, elements and their width must be equal; kinds,
///         formats, alignments and counts of blocks may differ. Nothing selected gives an empty
///         plan.
/// Order:  groups by target block, then layers, then offsets; the same input gives the same plan.
/// Errors: invalid_argument (shapes differ; a target block twice; a block both read and written;
///         two different layouts over the same bytes), out_of_range (block IDs, layers).
Result<Plan> plan(const Layout& source, const Layout& target, std::span<const BlockRange> blocks,
                  LayerRange layers = LayerRange::all());
/// The same for single blocks. Cost: also grows with pairs.
Result<Plan> plan(const Layout& source, const Layout& target, std::span<const BlockPair> blocks,
                  LayerRange layers = LayerRange::all());

/// How many blocks there are on either side, and whether these are the same. Errors:
/// invalid_argument (two different layouts over the same bytes).
Result<BlockBounds> bounds_of(const Layout& source, const Layout& target);

/// A plan as descriptor lists that pair up entry by entry: what a transfer takes.
struct PlanDescriptors {
  DescriptorList source;
  DescriptorList target;
};

/// `plan` must be one of these two layouts. Errors: as DescriptorList::add; out_of_range (a run
/// outside of its region: the plan is of other layouts).
Result<PlanDescriptors> describe(const Plan& plan, const Layout& source, const Layout& target);

/// A table of runs under a line of totals; more than `max_rows` runs are counted, not shown.
std::string to_string(const Plan& plan, std::size_t max_rows = 64);

}  // namespace towpath::layout
