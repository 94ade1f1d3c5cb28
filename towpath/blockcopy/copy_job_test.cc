#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/blockcopy/copy_job.h>

namespace towpath::blockcopy {
namespace {

using layout::BlockRange;
using layout::IndexRange;
using ::testing::ElementsAre;

std::vector<CopyChunk> cut(const ChunkLimits& limits, IndexRange layers = {4, 3}) {
  const BlockRange blocks[] = {{0, 10, 5}, {20, 30, 2}};
  return cut_chunks(blocks, layers, limits);
}

TEST(CopyJobTest, all_layers_of_blocks_stay_together_where_they_fit) {
  const auto chunks = cut({.bytes = 3 * 100 * 4, .layer_bytes = 100});  // 4 blocks of 3 layers
  ASSERT_EQ(chunks.size(), 2u);
  EXPECT_THAT(chunks[0].blocks, ElementsAre(BlockRange{0, 10, 4}));
  EXPECT_THAT(chunks[1].blocks, ElementsAre(BlockRange{4, 14, 1}, BlockRange{20, 30, 2}));
  EXPECT_EQ(chunks[1].block_count, 3u);
  EXPECT_EQ(chunks[1].layers, (IndexRange{4, 3}));
}

TEST(CopyJobTest, a_block_that_does_not_fit_is_cut_by_layers) {
  const auto chunks = cut({.bytes = 250, .layer_bytes = 100});
  ASSERT_EQ(chunks.size(), 14u);  // 7 blocks, 2 layers and then 1
  EXPECT_EQ(chunks[0].layers, (IndexRange{4, 2}));
  EXPECT_EQ(chunks[13].layers, (IndexRange{6, 1}));
  EXPECT_THAT(chunks[13].blocks, ElementsAre(BlockRange{21, 31, 1}));
}

TEST(CopyJobTest, layer_by_layer_fills_chunks_with_blocks_of_one_layer) {
  const auto chunks = cut({.bytes = 1 << 20, .layer_bytes = 100, .layer_by_layer = true});
  ASSERT_EQ(chunks.size(), 3u);
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(chunks[i].layers, (IndexRange{4 + i, 1}));
    EXPECT_EQ(chunks[i].block_count, 7u);
  }
}

TEST(CopyJobTest, blocks_that_must_be_whole_are_however_large) {
  const auto chunks = cut({.bytes = 250, .layer_bytes = 100, .whole_blocks = true});
  ASSERT_EQ(chunks.size(), 7u);
  EXPECT_EQ(chunks[6].layers, (IndexRange{4, 3}));
}

TEST(CopyJobTest, a_layer_of_a_block_is_taken_however_large) {
  EXPECT_EQ(cut({.bytes = 1, .layer_bytes = 100}).size(), 21u);
  EXPECT_TRUE(cut({.bytes = 1, .layer_bytes = 100}, {0, 0}).empty());
}

}  // namespace
}  // namespace towpath::blockcopy
