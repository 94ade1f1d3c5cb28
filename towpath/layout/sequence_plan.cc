#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/layout/sequence_plan.h>

namespace towpath::layout {
namespace {

struct Table {
  std::string_view name;
  std::span<const std::uint64_t> blocks;
  std::uint64_t first;      // token
  std::uint64_t page_size;  // tokens per block
  std::uint64_t num_blocks;

  std::uint64_t block_of(std::uint64_t token) const { return blocks[(first + token) / page_size]; }
  std::uint64_t within(std::uint64_t token) const { return (first + token) % page_size; }
};

Status check_table(const Table& table, std::uint64_t count) {
  const auto tokens = checked_multiply(table.blocks.size(), table.page_size);
  if (!tokens || !range_fits(table.first, count, *tokens))
    return error(
        Code::out_of_range,
        cat("tokens [", table.first, ", +", count, ") are not within the ", table.blocks.size(),
            " ", table.name, " blocks of ", table.page_size, " tokens each"),
        "give all blocks of the sequence");
  for (const std::uint64_t block : table.blocks)
    if (block >= table.num_blocks)
      return error(Code::out_of_range,
                   cat("Block ID ", block, " out of range (count: ", table.num_blocks, ") in the ",
                       table.name, " table"),
                   cat("keep to the blocks of the ", table.name, " layout"));
  return {};
}

Status check_once(std::span<const std::uint64_t> targets) {
  std::vector<std::uint64_t> sorted(targets.begin(), targets.end());
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice == sorted.end()) return {};
  return error(Code::invalid_argument, cat("block ", *twice, " is a target twice in its table"),
               "write each target block once");
}

/// Where in its blocks an extent of tokens lies, on both sides.
struct Window {
  std::uint64_t source_token, target_token, count;

  friend auto operator<=>(const Window&, const Window&) = default;
};
using Windows = std::map<Window, std::vector<BlockPair>>;

Windows windows_of(const Table& source, const Table& target, std::uint64_t count) {
  Windows windows;
  for (std::uint64_t token = 0; token < count;) {
    Window window{source.within(token), target.within(token), count - token};
    window.count = std::min({window.count, source.page_size - window.source_token,
                             target.page_size - window.target_token});
    windows[window].push_back({source.block_of(token), target.block_of(token)});
    token += window.count;
  }
  return windows;
}

Result<TensorView> cut_tokens(const TensorView& view, std::uint64_t first, std::uint64_t count) {
  return view.slice(Axis::token, {view[Axis::token].first + first, count});
}

}  // namespace

Result<BoxPlan> plan_tokens(const TensorView& source, const TensorView& target,
                            const TokenCopy& copy) {
  const Table from{"source", copy.source_blocks, copy.source_first, source[Axis::token].extent,
                   source[Axis::block].extent};
  const Table to{"target", copy.target_blocks, copy.target_first, target[Axis::token].extent,
                 target[Axis::block].extent};
  TOWPATH_TRY(check_table(from, copy.count));
  TOWPATH_TRY(check_table(to, copy.count));
  TOWPATH_TRY(check_once(to.blocks));
  std::vector<CopyBox> boxes;
  for (const auto& [window, pairs] : windows_of(from, to, copy.count)) {
    TOWPATH_TRY(const TensorView read, cut_tokens(source, window.source_token, window.count));
    TOWPATH_TRY(const TensorView written, cut_tokens(target, window.target_token, window.count));
    TOWPATH_TRY(const BoxPlan part, plan_boxes(read, written, ranges_of(pairs)));
    boxes.insert(boxes.end(), part.boxes().begin(), part.boxes().end());
  }
  return merged(BoxPlan(std::move(boxes)));
}

}  // namespace towpath::layout
