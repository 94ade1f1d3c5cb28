#include <algorithm>

#include <towpath/agent/flat_pairs.h>
#include <towpath/agent/segment_list.h>
#include <towpath/core/format.h>

namespace towpath::agent {

namespace {

/// What one segment writes, in an order that puts overlaps side by side. Not local to the function
/// that sorts: g++ 13 takes the comparison of a local class for an immediate function.
struct WrittenRange {
  std::uint64_t device = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  auto operator<=>(const WrittenRange&) const = default;
};

/// Walks the extents of one side, in the order of its selection.
class Cursor {
 public:
  explicit Cursor(const SegmentList::Side& side) : list_(*side.list) {
    if (list_.size() == 0) return;
    entry_ = list_.entry(0);
    if (!side.selection.by_index()) place(side.selection.first());
  }

  const ResolvedEntry& entry() const { return entry_; }
  std::uint64_t address() const { return entry_.address + within_ * entry_.stride; }
  /// Extents from here to the end of the entry.
  std::uint64_t run() const { return entry_.count - within_; }

  void place(std::uint64_t index) {
    // Mostly in the entry where the last one was, or in the next: that saves a division, or a
    // search. An index before it wraps around, and is in neither.
    const std::uint64_t ahead = index - first_;
    if (ahead == entry_.count) {
      next_entry();
    } else if (ahead > entry_.count) {
      number_ = list_.entry_of(index);
      entry_ = list_.entry(number_);
      first_ = list_.first_index(number_);
    }
    within_ = index - first_;
  }
  void advance(std::uint64_t extents) {
    within_ += extents;
    if (within_ == entry_.count && number_ + 1 != list_.entry_count()) {
      next_entry();
      within_ = 0;
    }
  }

 private:
  void next_entry() {
    first_ += entry_.count;
    entry_ = list_.entry(++number_);
  }

  const ResolvedList& list_;
  ResolvedEntry entry_;
  std::size_t number_ = 0;   // of entry_
  std::uint64_t first_ = 0;  // index of the entry's first extent
  std::uint64_t within_ = 0;
};

struct PairedRun {
  std::uint64_t count = 1;
  std::size_t instance = 0;
};

// Written in its place, not returned: a copy right after would wait for the stores.
void fill(backend::Segment& segment, const Cursor& here, const Cursor& there,
          const PairedRun& run) {
  segment.local = here.entry().record->memory[run.instance].get();
  segment.remote = there.entry().record->memory[run.instance].get();
  segment.local_address = here.address();
  segment.remote_address = there.address();
  segment.length = here.entry().length;
  segment.count = run.count;
  segment.local_stride = here.entry().stride;
  segment.remote_stride = there.entry().stride;
}

/// Whether `last` could take `next`, which follows it, in.
bool extend(backend::Segment& last, const backend::Segment& next, std::uint64_t max_segment_bytes) {
  if (next.count != 1 || last.local != next.local || last.remote != next.remote) return false;
  const std::uint64_t local_step = next.local_address - last.local_address;
  const std::uint64_t remote_step = next.remote_address - last.remote_address;
  if (last.count == 1 && local_step == last.length && remote_step == last.length &&
      last.length + next.length <= max_segment_bytes) {
    last.length += next.length;
    return true;
  }
  if (last.length != next.length) return false;
  if (last.count == 1 && next.local_address > last.local_address &&
      next.remote_address > last.remote_address) {
    last.local_stride = local_step;
    last.remote_stride = remote_step;
    last.count = 2;
    return true;
  }
  if (last.count > 1 && local_step == last.local_stride * last.count &&
      remote_step == last.remote_stride * last.count) {
    ++last.count;
    return true;
  }
  return false;
}

Status unequal(std::uint64_t position, std::uint64_t local, std::uint64_t remote) {
  return error(
      Code::invalid_argument,
      cat("descriptor pair ", position, ": ", local, " bytes here, ", remote, " bytes there"),
      "give both sides of a pair the same length");
}

Status targets_overlap(std::uint64_t begin, std::uint64_t end_before) {
  return error(Code::invalid_argument,
               cat("targets overlap at ", hex(begin), ": one ends at ", hex(end_before)),
               "write each byte once per transfer");
}

/// Whether the extents of a strided target lie apart. Before anything is done for each of them: of
/// those that do not, a region holds any number.
Status check_apart(const backend::Segment& row, TransferOp op) {
  const bool is_local = op == TransferOp::read;
  const std::uint64_t begin = is_local ? row.local_address : row.remote_address;
  const std::uint64_t stride = is_local ? row.local_stride : row.remote_stride;
  if (row.count == 1 || stride >= row.length) return {};
  return targets_overlap(begin + stride, begin + row.length);
}

Status check_range(const char* side, const SegmentList::Side& which) {
  const Selection& selection = which.selection;
  const std::uint64_t size = which.list->size();
  if (selection.by_index()) {
    for (std::size_t i = 0; i < selection.indices().size(); ++i) {
      if (selection.indices()[i] >= size) {
        return error(Code::out_of_range, cat(side, " index ", selection.indices()[i],
                                             " at position ", i, " of a list of ", size));
      }
    }
  } else if (selection.first() > size || selection.count_in(size) > size - selection.first()) {
    return error(Code::out_of_range, cat(side, " range of ", selection.count_in(size), " from ",
                                         selection.first(), " of a list of ", size));
  }
  return {};
}

}  // namespace

/// What a backend made of the records of a list; that of the last one asked for is remembered.
class SegmentList::Memories {
 public:
  Memories(const ResolvedList& list, std::size_t instance)
      : records_(list.records()), instance_(instance) {}

  backend::Memory* of(std::uint32_t record) {
    if (record != last_) {
      memory_ = records_[record]->memory[instance_].get();
      last_ = record;
    }
    return memory_;
  }

 private:
  const std::span<const RecordPtr> records_;
  const std::size_t instance_;
  std::uint32_t last_ = UINT32_MAX;
  backend::Memory* memory_ = nullptr;
};

Status SegmentList::check_sides(const Side& local, const Side& remote) const {
  TOWPATH_TRY(check_range("local", local));
  TOWPATH_TRY(check_range("remote", remote));
  const std::uint64_t here = local.selection.count_in(local.list->size());
  const std::uint64_t there = remote.selection.count_in(remote.list->size());
  if (here != there) {
    return error(Code::invalid_argument,
                 cat(here, " descriptors on the local side, ", there, " on the remote side"),
                 "select as many on both sides");
  }
  if (here == 0)
    return error(Code::invalid_argument, "a transfer of no descriptors", "select at least one");
  return {};
}

Status SegmentList::build(const Side& local, const Side& remote, const Options& options) {
  segments_.clear();
  origins_.clear();
  bytes_ = 0;
  TOWPATH_TRY(check_sides(local, remote));
  descriptors_ = local.selection.count_in(local.list->size());
  TOWPATH_TRY(pair(local, remote, options));
  runs_ = 0;
  for (const backend::Segment& segment : segments_) runs_ += segment.count;
  const bool target_is_local = options.op == TransferOp::read;
  return check_targets(target_is_local ? local : remote, target_is_local);
}

Status SegmentList::pair(const Side& local, const Side& remote, const Options& options) {
  if (!local.list->flat().empty() && !remote.list->flat().empty())
    return pair_flat(local, remote, options);
  const bool by_index = local.selection.by_index() || remote.selection.by_index();
  return by_index ? pair_by_index(local, remote, options) : pair_by_run(local, remote, options);
}

inline void SegmentList::join_last(std::uint64_t descriptor, const Options& options) {
  backend::Segment& next = segments_.back();
  if (options.merge && segments_.size() > 1 &&
      extend(*(&next - 1), next, options.max_segment_bytes))
    return segments_.pop_back();
  cut_or_keep_last(descriptor, options.max_segment_bytes);
}

inline void SegmentList::cut_or_keep_last(std::uint64_t descriptor,
                                          std::uint64_t max_segment_bytes) {
  if (segments_.back().length > max_segment_bytes) return cut_last(descriptor, max_segment_bytes);
  origins_.push_back({descriptor, 0});
}

Status SegmentList::pair_flat(const Side& local, const Side& remote, const Options& options) {
  const auto as_listed = [](const Side& side) {
    return [at = side.list->flat().data() + side.selection.first()](
               std::uint64_t position) -> const FlatExtent& { return at[position]; };
  };
  const auto by_index = [](const Side& side) {
    return [all = side.list->flat(), selection = side.selection](
               std::uint64_t position) -> const FlatExtent& { return all[selection.at(position)]; };
  };
  const auto memories = [&](const Side& side) { return Memories(*side.list, options.instance); };
  if (local.selection.by_index() || remote.selection.by_index())
    return pair_each(FlatPairs(by_index(local), by_index(remote), descriptors_), memories(local),
                     memories(remote), options);
  return pair_each(FlatPairs(as_listed(local), as_listed(remote), descriptors_), memories(local),
                   memories(remote), options);
}

// Blocks in any order, on both sides: what a long list spends its time with, so without a cursor,
// and no segment is written and then taken back.
template <typename Pairs>
Status SegmentList::pair_each(const Pairs& pairs, Memories mine, Memories theirs,
                              const Options& options) {
  segments_.reserve(descriptors_);
  origins_.reserve(descriptors_);
  FlatRun run;
  for (std::uint64_t done = 0; done < descriptors_; done += run.pairs) {
    const FlatPair one = pairs.at(done);
    if (!one.is_even()) return unequal(done, one.here.length, one.there.length);
    run = {.length = one.here.length};
    if (options.merge && pairs.may_run(done)) run = pairs.run_from(done, options.max_segment_bytes);
    segments_.push_back({.local = mine.of(one.here.record),
                         .remote = theirs.of(one.there.record),
                         .local_address = one.here.address,
                         .remote_address = one.there.address,
                         .length = run.length,
                         .count = run.count,
                         .local_stride = run.stride_here,
                         .remote_stride = run.stride_there});
    bytes_ += run.length * run.count;
    cut_or_keep_last(done, options.max_segment_bytes);
  }
  return {};
}

Status SegmentList::pair_by_index(const Side& local, const Side& remote, const Options& options) {
  Cursor here(local);
  Cursor there(remote);
  for (std::uint64_t done = 0; done < descriptors_;) {
    const std::uint64_t first_here = local.selection.at(done);
    const std::uint64_t first_there = remote.selection.at(done);
    here.place(first_here);
    there.place(first_there);
    if (here.entry().length != there.entry().length)
      return unequal(done, here.entry().length, there.entry().length);
    // Indices that count up on both sides are a run as good as one that was listed as such.
    const std::uint64_t limit =
        options.merge ? std::min({here.run(), there.run(), descriptors_ - done}) : 1;
    std::uint64_t run = 1;
    while (run < limit && local.selection.at(done + run) == first_here + run &&
           remote.selection.at(done + run) == first_there + run)
      ++run;
    fill(segments_.emplace_back(), here, there, {run, options.instance});
    TOWPATH_TRY(settle_last(done, options));
    done += run;
  }
  return {};
}

Status SegmentList::pair_by_run(const Side& local, const Side& remote, const Options& options) {
  Cursor here(local);
  Cursor there(remote);
  for (std::uint64_t done = 0; done < descriptors_;) {
    if (here.entry().length != there.entry().length)
      return unequal(done, here.entry().length, there.entry().length);
    const std::uint64_t run = std::min({here.run(), there.run(), descriptors_ - done});
    fill(segments_.emplace_back(), here, there, {run, options.instance});
    TOWPATH_TRY(settle_last(done, options));
    here.advance(run);
    there.advance(run);
    done += run;
  }
  return {};
}

Status SegmentList::settle_last(std::uint64_t descriptor, const Options& options) {
  backend::Segment& next = segments_.back();
  TOWPATH_TRY(check_apart(next, options.op));
  bytes_ += next.length * next.count;
  const bool gapless =
      next.count > 1 && next.local_stride == next.length && next.remote_stride == next.length;
  if (options.merge && gapless && next.length * next.count <= options.max_segment_bytes) {
    next.length *= next.count;
    next.count = 1;
  }
  join_last(descriptor, options);
  return {};
}

// Rare: the extents are longer than the backend takes in one piece.
void SegmentList::cut_last(std::uint64_t descriptor, std::uint64_t max_segment_bytes) {
  const backend::Segment whole = segments_.back();
  segments_.pop_back();
  for (std::uint64_t k = 0; k < whole.count; ++k) {
    for (std::uint64_t byte = 0; byte < whole.length; byte += max_segment_bytes) {
      backend::Segment part = whole;
      part.count = 1;
      part.local_address += k * whole.local_stride + byte;
      part.remote_address += k * whole.remote_stride + byte;
      part.length = std::min(max_segment_bytes, whole.length - byte);
      segments_.push_back(part);
      origins_.push_back({descriptor + k, byte});
    }
  }
}

// Overlap matters only among the targets of one transfer. A list that is disjoint in itself leaves
// one way to go wrong, the same index twice, which a bit per index finds.
Status SegmentList::check_targets(const Side& target, bool target_is_local) {
  if (!target.list->is_disjoint()) return check_targets_by_sorting(target, target_is_local);
  if (!target.selection.by_index()) return {};
  seen_.resize((target.list->size() + 63) / 64);
  Status status;
  std::uint64_t checked = 0;
  for (const std::uint32_t index : target.selection.indices()) {
    std::uint64_t& word = seen_[index / 64];
    const std::uint64_t bit = std::uint64_t{1} << (index % 64);
    if ((word & bit) != 0) {
      status = error(Code::invalid_argument,
                     cat("target index ", index, " is named twice, again at position ", checked),
                     "write each target once per transfer");
      break;
    }
    word |= bit;
    ++checked;
  }
  for (const std::uint32_t index : target.selection.indices().first(checked)) seen_[index / 64] = 0;
  return status;
}

Status SegmentList::check_targets_by_sorting(const Side& target, bool target_is_local) const {
  std::vector<WrittenRange> targets;
  for (const backend::Segment& segment : segments_) {
    if (segment.length == 0) continue;
    // Registrations of host memory may overlap; files and devices each count by themselves.
    const auto device =
        is_host_addressable(target.list->kind())
            ? std::uintptr_t{0}
            : reinterpret_cast<std::uintptr_t>(target_is_local ? segment.local : segment.remote);
    for (std::uint64_t k = 0; k < segment.count; ++k) {
      const std::uint64_t begin = target_is_local
                                      ? segment.local_address + k * segment.local_stride
                                      : segment.remote_address + k * segment.remote_stride;
      targets.push_back({device, begin, begin + segment.length});
    }
  }
  std::ranges::sort(targets);
  for (std::size_t i = 1; i < targets.size(); ++i) {
    if (targets[i].device == targets[i - 1].device && targets[i].begin < targets[i - 1].end)
      return targets_overlap(targets[i].begin, targets[i - 1].end);
  }
  return {};
}

std::uint64_t SegmentList::descriptor_at(const backend::SegmentFailure& where,
                                         const Side& local) const {
  const Origin origin = origins_[where.segment];
  std::uint64_t offset = origin.byte + where.extent * segments_[where.segment].length + where.bytes;
  std::uint64_t position = origin.descriptor;
  for (; position + 1 < descriptors_; ++position) {
    const std::size_t entry = local.list->entry_of(local.selection.at(position));
    const std::uint64_t length = local.list->entry(entry).length;
    if (offset < length) break;
    offset -= length;
  }
  return position;
}

}  // namespace towpath::agent
