// Shards of every degree filled from shards of every other, checked element by element.
#include <vector>

#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/layout/tensor_parallel.h>
#include <towpath/layout/testing/cell_memory.h>

namespace towpath::layout {
namespace {

using testing::CellMemory;
using testing::Element;
using testing::Random;

constexpr std::uint64_t kShardSeed = 20270301;
constexpr std::uint64_t kShardBlocks = 3;

CellMemory shard_of(Random& random, std::uint64_t heads, Shard shard) {
  const IndexRange range = heads_of(heads, shard).value();
  Axes axes;
  axes[Axis::block].extent = kShardBlocks;
  axes[Axis::layer].extent = 2;
  axes[Axis::outer].extent = heads == 1 ? 1 : 2;
  axes[Axis::token].extent = 4;
  axes[Axis::head] = {.extent = range.count, .first = range.first};
  axes[Axis::dim].extent = 3;
  return testing::random_memory(random, axes, 16);
}

/// A number of its own for each element of the whole model.
std::uint32_t number_of(const CellMemory& memory, const Element& at) {
  const std::uint64_t head = memory.view[Axis::head].first + at.head;
  return static_cast<std::uint32_t>(
      ((((at.block * 2 + at.layer) * 2 + at.outer) * 4 + at.token) * 16 + head) * 3 + at.dim);
}

template <class Visit>
void for_each(const TensorView& view, Visit visit) {
  for (std::uint64_t block = 0; block < kShardBlocks; ++block)
    testing::for_each_in_block(view, [&](Element at) {
      at.block = block;
      visit(at);
    });
}

void check(std::uint64_t heads, std::uint64_t from, std::uint64_t to) {
  SCOPED_TRACE(cat(heads, " heads, from ", from, " ranks to ", to));
  Random random(kShardSeed + heads * 100 + from * 10 + to);
  std::vector<CellMemory> sources;
  for (std::uint64_t rank = 0; rank < from; ++rank) {
    sources.push_back(shard_of(random, heads, {rank, from}));
    CellMemory& made = sources.back();
    for_each(made.view, [&](const Element& at) { made.cell(at) = number_of(made, at); });
  }
  const BlockRange all[] = {{0, 0, kShardBlocks}};
  for (std::uint64_t rank = 0; rank < to; ++rank) {
    CellMemory target = shard_of(random, heads, {rank, to});
    const auto pieces = pieces_of(heads, from, {rank, to}).value();
    for (const ShardPiece& piece : pieces) {
      const CellMemory& source = sources.at(piece.source_rank);
      const auto both = intersect(source.view, target.view);
      ASSERT_TRUE(both.ok()) << both.status().to_string();
      EXPECT_EQ(both->source.range(Axis::head), piece.heads);
      const auto plan = plan_boxes(both->source, both->target, all);
      ASSERT_TRUE(plan.ok()) << plan.status().to_string();
      testing::run_plan(to_runs(*plan), 16, source, target);
    }
    for_each(target.view,
             [&](const Element& at) { ASSERT_EQ(target.cell(at), number_of(target, at)); });
  }
}

TEST(TensorParallelTest, every_degree_is_filled_from_every_other) {
  // 8: Llama; 4: Qwen3-235B, replicated at TP 8; 1: MLA, replicated everywhere.
  for (const std::uint64_t heads : {8u, 4u, 1u})
    for (const std::uint64_t from : {1u, 2u, 4u, 8u})
      for (const std::uint64_t to : {1u, 2u, 4u, 8u}) check(heads, from, to);
}

TEST(TensorParallelTest, readers_spread_over_those_that_hold_the_same) {
  for (std::uint64_t rank = 0; rank < 8; ++rank)
    EXPECT_EQ(pieces_of(1, 8, {rank, 8}).value(), (std::vector<ShardPiece>{{rank, {0, 1}}}));
  EXPECT_EQ(pieces_of(8, 4, {1, 2}).value(), (std::vector<ShardPiece>{{2, {4, 2}}, {3, {6, 2}}}));
}

TEST(TensorParallelTest, degrees_that_do_not_divide_are_refused) {
  EXPECT_EQ(heads_of(8, {0, 3}).code(), Code::invalid_argument);
  EXPECT_EQ(heads_of(8, {2, 2}).code(), Code::invalid_argument);
  EXPECT_EQ(heads_of(0, {0, 1}).code(), Code::invalid_argument);
  EXPECT_EQ(pieces_of(8, 5, {0, 2}).code(), Code::invalid_argument);
  EXPECT_TRUE(heads_of(10, {1, 5}).ok());
}

}  // namespace
}  // namespace towpath::layout
