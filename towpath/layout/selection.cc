#include <algorithm>
#include <string_view>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/layout/selection.h>

namespace towpath::layout {
namespace {

struct Side {
  std::string_view name;
  std::uint64_t first, count, blocks;
};

Status check_side(const Side& side, std::size_t entry) {
  if (range_fits(side.first, side.count, side.blocks)) return {};
  const std::uint64_t bad = std::max(side.first, side.blocks);
  return error(Code::out_of_range,
               cat("Block ID ", bad, " out of range (count: ", side.blocks, "): entry ", entry,
                   " takes ", side.count, " ", side.name, " blocks from ", side.first),
               cat("keep to the blocks of the ", side.name, " layout"));
}

template <typename T, typename First>
void sort_by(std::vector<T>& values, First first) {
  const auto less = [&](const T& a, const T& b) { return first(a) < first(b); };
  if (!std::is_sorted(values.begin(), values.end(), less))
    std::sort(values.begin(), values.end(), less);
}

/// A user's range and its position.
struct Entry {
  BlockRange range;
  std::size_t index;
};

Result<std::vector<Entry>> checked_entries(std::span<const BlockRange> ranges,
                                           const BlockBounds& bounds) {
  std::vector<Entry> entries;
  entries.reserve(ranges.size());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const BlockRange& range = ranges[i];
    if (range.count == 0) continue;
    TOWPATH_TRY(check_side({"source", range.source_first, range.count, bounds.source_blocks}, i));
    TOWPATH_TRY(check_side({"target", range.target_first, range.count, bounds.target_blocks}, i));
    entries.push_back({range, i});
  }
  sort_by(entries, [](const Entry& entry) { return entry.range.target_first; });
  return entries;
}

// `entries` are in the order of their targets.
Status check_targets_once(std::span<const Entry> entries) {
  for (std::size_t i = 1; i < entries.size(); ++i) {
    const Entry& low = entries[i - 1];
    const Entry& high = entries[i];
    if (high.range.target_first - low.range.target_first < low.range.count)
      return error(Code::invalid_argument,
                   cat("block ", high.range.target_first, " is a target twice: in entries ",
                       std::min(low.index, high.index), " and ", std::max(low.index, high.index)),
                   "write each target block once");
  }
  return {};
}

// `entries` are in the order of their targets, which lie apart; sources may cover each other.
Status check_disjoint(std::span<const Entry> entries) {
  std::vector<Entry> by_source(entries.begin(), entries.end());
  sort_by(by_source, [](const Entry& entry) { return entry.range.source_first; });
  std::size_t t = 0;
  for (const Entry& source : by_source) {
    const std::uint64_t first = source.range.source_first;
    const auto target_end = [&] { return entries[t].range.target_first + entries[t].range.count; };
    while (t < entries.size() && target_end() <= first) ++t;
    if (t == entries.size()) return {};
    const std::uint64_t target = entries[t].range.target_first;
    if (target < first + source.range.count)
      return error(Code::invalid_argument,
                   cat("block ", std::max(first, target), " is both source (entry ", source.index,
                       ") and target (entry ", entries[t].index, ") of one copy"),
                   "copy over a block that is neither, or in two copies");
  }
  return {};
}

bool goes_on(const BlockRange& last, const BlockRange& next) {
  return last.source_first + last.count == next.source_first &&
         last.target_first + last.count == next.target_first;
}

/// Takes `next` into `group` where it is one more of the same, at the same steps.
bool repeat(BlockGroup& group, const BlockRange& next) {
  const BlockRange& range = group.range;
  if (next.count != range.count || next.source_first < range.source_first) return false;
  const std::uint64_t source_distance = next.source_first - range.source_first;
  const std::uint64_t target_distance = next.target_first - range.target_first;
  if (group.repeats == 1) {
    group.source_step = source_distance;
    group.target_step = target_distance;
  } else if (source_distance != group.source_step * group.repeats ||
             target_distance != group.target_step * group.repeats) {
    return false;
  }
  ++group.repeats;
  return true;
}

std::vector<BlockRange> merged(std::span<const Entry> entries) {
  std::vector<BlockRange> ranges;
  for (const Entry& entry : entries) {
    if (!ranges.empty() && goes_on(ranges.back(), entry.range))
      ranges.back().count += entry.range.count;
    else
      ranges.push_back(entry.range);
  }
  return ranges;
}

}  // namespace

std::vector<BlockRange> ranges_of(std::span<const BlockPair> pairs) {
  std::vector<BlockRange> ranges;
  for (const BlockPair& pair : pairs) {
    const BlockRange next{pair.source, pair.target, 1};
    if (!ranges.empty() && goes_on(ranges.back(), next))
      ++ranges.back().count;
    else
      ranges.push_back(next);
  }
  return ranges;
}

Result<std::vector<BlockGroup>> group_blocks(std::span<const BlockRange> ranges,
                                             const BlockBounds& bounds) {
  TOWPATH_TRY(const std::vector<Entry> entries, checked_entries(ranges, bounds));
  TOWPATH_TRY(check_targets_once(entries));
  if (bounds.same_blocks) TOWPATH_TRY(check_disjoint(entries));
  std::vector<BlockGroup> groups;
  for (const BlockRange& range : merged(entries))
    if (groups.empty() || !repeat(groups.back(), range)) groups.push_back({.range = range});
  return groups;
}

}  // namespace towpath::layout
