// SegmentList: what a transfer moves, as few segments as its descriptors allow.
//
// Takes pairs of extents in order and merges on the fly: neighbours on both sides become one
// longer extent, equal extents at equal distances on both sides become one strided segment.
// Remembers which descriptor each segment begins with, so that a failure names the descriptors it
// hit. Reused from transfer to transfer: no allocation once it has been as long before. Thread:
// none of its own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <towpath/agent/options.h>
#include <towpath/agent/resolved_list.h>
#include <towpath/backend/backend.h>

namespace towpath::agent {

class SegmentList {
 public:
  struct Side {
    const ResolvedList* list = nullptr;
    Selection selection;
  };
  struct Options {
    std::size_t instance = 0;
    std::uint64_t max_segment_bytes = UINT64_MAX;
    bool merge = true;
    TransferOp op = TransferOp::read;
  };

  /// Pairs the i-th extent of one side with the i-th of the other.
  /// Errors: invalid_argument (different counts, none, unequal lengths, a target named twice or
  /// overlapping another), out_of_range (an index); each with the position and the values.
  Status build(const Side& local, const Side& remote, const Options& options);

  std::span<const backend::Segment> segments() const noexcept { return segments_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::uint64_t descriptors() const noexcept { return descriptors_; }
  /// Extents without a gap, of all segments.
  std::uint64_t runs() const noexcept { return runs_; }

  /// The position, in the selections, of the descriptor that holds this byte of a segment. `local`
  /// is the side that the list was built from. Cost: linear in the descriptors of the segment.
  std::uint64_t descriptor_at(const backend::SegmentFailure& where, const Side& local) const;

 private:
  struct Origin {  // where a segment begins: a position in the selections, a byte of that
                   // descriptor
    std::uint64_t descriptor = 0;
    std::uint64_t byte = 0;
  };

  class Memories;

  Status check_sides(const Side& local, const Side& remote) const;
  Status pair(const Side& local, const Side& remote, const Options& options);
  Status pair_flat(const Side& local, const Side& remote, const Options& options);
  template <typename Pairs>
  Status pair_each(const Pairs& pairs, Memories mine, Memories theirs, const Options& options);
  Status pair_by_index(const Side& local, const Side& remote, const Options& options);
  Status pair_by_run(const Side& local, const Side& remote, const Options& options);
  /// Makes one extent of the segment just added where it has no gaps, then as below.
  /// Errors: invalid_argument (it is a target that overlaps itself).
  Status settle_last(std::uint64_t descriptor, const Options& options);
  /// Joins the segment just added, which begins with `descriptor`, to the one before, or as below.
  void join_last(std::uint64_t descriptor, const Options& options);
  void cut_or_keep_last(std::uint64_t descriptor, std::uint64_t max_segment_bytes);
  void cut_last(std::uint64_t descriptor, std::uint64_t max_segment_bytes);
  Status check_targets(const Side& target, bool target_is_local);
  Status check_targets_by_sorting(const Side& target, bool target_is_local) const;

  std::vector<backend::Segment> segments_;
  std::vector<Origin> origins_;
  std::vector<std::uint64_t> seen_;  // a bit per index of the target list
  std::uint64_t bytes_ = 0;
  std::uint64_t descriptors_ = 0;
  std::uint64_t runs_ = 0;
};

}  // namespace towpath::agent
