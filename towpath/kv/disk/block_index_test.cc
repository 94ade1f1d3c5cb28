#include <algorithm>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include <towpath/kv/disk/block_index.h>

namespace towpath::kv {
namespace {

BlockIndex::Place place_of(std::mt19937_64& random, BlockHash hash, std::uint64_t segment) {
  const std::uint64_t salts[] = {0, hash, random()};
  BlockIndex::Place place;
  place.record = {.hash = hash,
                  .digest = {.algorithm = random() % 2 == 0 ? DigestAlgorithm::xxh3_64
                                                            : DigestAlgorithm::crc32c,
                             .salt = salts[random() % 3],
                             .value = random()},
                  .length = 1 + random() % kMaxBlockBytes};
  place.segment = segment;
  place.offset = random() % (std::uint64_t{UINT32_MAX} + 1) * kSegmentPage;
  place.acknowledged = random() % 2 == 0;
  place.is_kept = random() % 2 == 0;
  return place;
}

void expect_equal(const BlockIndex::Place& found, const BlockIndex::Place& put) {
  EXPECT_EQ(found.record, put.record);
  EXPECT_EQ(found.segment, put.segment);
  EXPECT_EQ(found.offset, put.offset);
  EXPECT_EQ(found.acknowledged, put.acknowledged);
  EXPECT_EQ(found.is_kept, put.is_kept);
}

// Segments come, with ever larger numbers, and the oldest go; blocks are put, put anew and erased.
TEST(BlockIndexTest, gives_back_all_that_was_put_and_forgets_a_segment_whole) {
  std::mt19937_64 random(5);
  BlockIndex index;
  std::map<BlockHash, BlockIndex::Place> model;
  for (std::uint64_t segment = std::uint64_t{1} << 40U; segment < (std::uint64_t{1} << 40U) + 60;
       ++segment) {
    for (int i = 0; i < 200; ++i) {
      const BlockHash hash = random() % 2000;
      if (random() % 4 == 0) {
        EXPECT_EQ(index.erase(hash), model.erase(hash) == 1);
      } else {
        const auto place = place_of(random, hash, segment - random() % 4);
        index.put(place);
        model[hash] = place;
      }
    }
    std::vector<BlockHash> gone = index.erase_segment(segment - 8);
    std::ranges::sort(gone);
    std::vector<BlockHash> expected;
    std::erase_if(model, [&](const auto& entry) {
      if (entry.second.segment != segment - 8) return false;
      expected.push_back(entry.first);
      return true;
    });
    EXPECT_EQ(gone, expected);
    ASSERT_EQ(index.size(), model.size());
    for (const auto& [hash, place] : model) {
      const auto found = index.find(hash);
      ASSERT_TRUE(found) << hash;
      ASSERT_NO_FATAL_FAILURE(expect_equal(*found, place));
    }
  }
  std::size_t seen = 0;
  index.for_each([&](const BlockIndex::Place& place) {
    ++seen;
    expect_equal(place, model.at(place.record.hash));
  });
  EXPECT_EQ(seen, model.size());
}

TEST(BlockIndexTest, names_the_first_16_TiB_of_a_segment) {
  EXPECT_TRUE(BlockIndex::can_name(UINT32_MAX * kSegmentPage));
  EXPECT_FALSE(BlockIndex::can_name((UINT32_MAX + std::uint64_t{1}) * kSegmentPage));
  EXPECT_FALSE(BlockIndex::can_name(kSegmentPage + 1));
}

}  // namespace
}  // namespace towpath::kv
