#include "tools/bench/pattern.h"

#include <gtest/gtest.h>

namespace towpath::tools::bench {
namespace {

constexpr std::uint64_t kFillSeed = 7;

// Four blocks of 24 bytes, 32 apart, as they are when all arrived.
Bytes arrived() {
  Bytes source(128), area(128);
  fill(source, kFillSeed);
  poison(area);
  for (std::size_t block = 0; block < 4; ++block)
    std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(block * 32), 24,
                area.begin() + static_cast<std::ptrdiff_t>(block * 32));
  return area;
}
constexpr Blocks kBlocks{.seed = kFillSeed, .block_bytes = 24, .stride = 32, .count = 4};

TEST(BenchPatternTest, what_arrived_is_right) {
  EXPECT_EQ(first_wrong(arrived(), kBlocks), std::nullopt);
}

TEST(BenchPatternTest, any_single_byte_that_is_wrong_is_found) {
  for (std::size_t at = 0; at < 128; ++at) {
    Bytes area = arrived();
    area[at] ^= std::byte{1};
    EXPECT_EQ(first_wrong(area, kBlocks), at) << (at % 32 < 24 ? "in a block" : "in a gap");
  }
}

TEST(BenchPatternTest, swapped_old_and_missing_blocks_are_found) {
  Bytes swapped = arrived();
  std::swap_ranges(swapped.begin(), swapped.begin() + 24, swapped.begin() + 32);
  EXPECT_TRUE(first_wrong(swapped, kBlocks));
  Blocks older = kBlocks;
  older.seed = kFillSeed + 1;
  EXPECT_TRUE(first_wrong(arrived(), older));
  Bytes missing(128);
  poison(missing);
  EXPECT_EQ(first_wrong(missing, kBlocks), 0U);
}

TEST(BenchPatternTest, odd_sizes_are_looked_at_to_the_last_byte) {
  Bytes area(13);
  fill(area, kFillSeed);
  const Blocks blocks{.seed = kFillSeed, .block_bytes = 13, .stride = 13, .count = 1};
  EXPECT_EQ(first_wrong(area, blocks), std::nullopt);
  area[12] ^= std::byte{1};
  EXPECT_EQ(first_wrong(area, blocks), 12U);
}

TEST(BenchPatternTest, blocks_that_do_not_fit_are_wrong_and_not_read) {
  const Bytes area = arrived();
  for (const Blocks& blocks :
       {Blocks{kFillSeed, 24, 32, 5}, Blocks{kFillSeed, 33, 32, 1},
        Blocks{kFillSeed, 1, 0, UINT64_MAX}, Blocks{kFillSeed, 24, UINT64_MAX, 2},
        Blocks{kFillSeed, UINT64_MAX, UINT64_MAX, UINT64_MAX}})
    EXPECT_EQ(first_wrong(area, blocks), area.size());
  EXPECT_EQ(first_wrong({}, {}), std::nullopt) << "nothing to look at";
}

}  // namespace
}  // namespace towpath::tools::bench
