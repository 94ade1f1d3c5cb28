#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/backends/nvme/dispatcher.h>
#include <towpath/backends/nvme/splitter.h>
#include <towpath/backends/nvme/testing/fake_driver.h>

namespace towpath::backends::nvme {
namespace {

constexpr std::uint64_t kBase = 0x10000;  // of memory; nothing is loaded or stored

class SplitterTest : public ::testing::Test {
 protected:
  void use(std::uint32_t block_bytes, std::uint64_t max_transfer_bytes,
           std::uint64_t zone_bytes = 0) {
    auto record = std::make_shared<BlockRecord>(RegionDescriptor{}, 1);
    record->target = std::make_shared<testing::FakeNamespace>(
        NamespaceInfo{.block_bytes = block_bytes,
                      .blocks = 1U << 20U,
                      .max_transfer_bytes = max_transfer_bytes,
                      .zone_bytes = zone_bytes},
        Access::read_write, sys::Fd());
    device = std::make_unique<BlockMemory>(nullptr, record);
  }
  backend::Segment segment(std::uint64_t at, std::uint64_t offset, std::uint64_t length,
                           std::uint64_t count = 1, std::uint64_t local_stride = 0,
                           std::uint64_t remote_stride = 0) const {
    return {nullptr, device.get(), kBase + at, offset, length, count, local_stride, remote_stride};
  }
  struct Cut {
    Path path;
    std::uint64_t lba, blocks, bytes;
    friend bool operator==(const Cut&, const Cut&) = default;
    friend void PrintTo(const Cut& cut, std::ostream* out) {
      *out << name_of(cut.path) << " " << cut.lba << "+" << cut.blocks << " " << cut.bytes;
    }
  };
  std::vector<Cut> cut(const std::vector<backend::Segment>& segments, bool write) {
    std::vector<Cut> cuts;
    Splitter splitter;
    splitter.start(segments, write);
    while (!splitter.done()) {
      const Piece piece = splitter.next();
      const Blocks blocks =
          blocks_of(segments, piece.start, piece.length, device->info().block_bytes);
      cuts.push_back({piece.path, blocks.lba, blocks.count, piece.length});
    }
    return cuts;
  }

  std::unique_ptr<BlockMemory> device;
};

TEST_F(SplitterTest, whole_blocks_go_straight_up_to_the_largest_transfer) {
  use(512, 8192);
  const std::vector<Cut> expected{
      {Path::direct, 0, 16, 8192}, {Path::direct, 16, 16, 8192}, {Path::direct, 32, 1, 512}};
  for (const bool write : {false, true})
    EXPECT_EQ(cut({segment(0, 0, 2 * 8192 + 512)}, write), expected);
}

TEST_F(SplitterTest, no_command_crosses_the_end_of_a_zone) {
  use(512, 1U << 20U, 8192);
  EXPECT_EQ(cut({segment(0, 4096, 16384)}, false), (std::vector<Cut>{{Path::direct, 8, 8, 4096},
                                                                     {Path::direct, 16, 16, 8192},
                                                                     {Path::direct, 32, 8, 4096}}));
  EXPECT_EQ(cut({segment(1, 8192 - 512, 1024)}, false),
            (std::vector<Cut>{{Path::bounce, 15, 1, 512}, {Path::bounce, 16, 1, 512}}));
  // Two extents that one window would have taken.
  EXPECT_EQ(cut({segment(1, 8192 - 10, 10), segment(100, 8192 + 7, 10)}, false),
            (std::vector<Cut>{{Path::bounce, 15, 1, 10}, {Path::bounce, 16, 1, 10}}));
}

TEST_F(SplitterTest, neighbours_in_memory_and_on_the_device_are_one_command) {
  use(512, 1U << 20U);
  EXPECT_EQ(cut({segment(0, 4096, 1024, 100, 1024, 1024)}, false),
            (std::vector<Cut>{{Path::direct, 8, 200, 102'400}}));
}

TEST_F(SplitterTest, blocks_at_odd_addresses_go_over_windows) {
  use(512, 1U << 20U);
  EXPECT_EQ(cut({segment(1, 0, 70'000 - 70'000 % 512)}, false),
            (std::vector<Cut>{{Path::bounce, 0, 128, 65536}, {Path::bounce, 128, 8, 4096}}));
  EXPECT_EQ(cut({segment(1, 0, 69'632)}, true),
            (std::vector<Cut>{{Path::bounce, 0, 128, 65536}, {Path::bounce, 128, 8, 4096}}))
      << "whole blocks: nothing is read before it is written";
}

TEST_F(SplitterTest, head_and_tail_of_a_read_take_the_detour_alone) {
  use(512, 1U << 20U);
  EXPECT_EQ(cut({segment(100, 100, 2000)}, false),
            (std::vector<Cut>{
                {Path::bounce, 0, 1, 412}, {Path::direct, 1, 3, 1536}, {Path::bounce, 4, 1, 52}}));
}

TEST_F(SplitterTest, parts_of_blocks_are_changed_one_block_at_a_time) {
  use(512, 1U << 20U);
  EXPECT_EQ(cut({segment(100, 100, 2000)}, true),
            (std::vector<Cut>{
                {Path::modify, 0, 1, 412}, {Path::direct, 1, 3, 1536}, {Path::modify, 4, 1, 52}}));
}

TEST_F(SplitterTest, small_extents_share_a_window) {
  use(4096, 1U << 20U);
  EXPECT_EQ(cut({segment(0, 0, 40, 1000, 48, 56)}, false),
            (std::vector<Cut>{{Path::bounce, 0, 14, 40'000}}))
      << "56,000 bytes of the device";
  EXPECT_EQ(
      cut({segment(0, 0, 40, 80, 48, 56)}, true),
      (std::vector<Cut>{{Path::modify, 0, 1, 73 * 40 + 8}, {Path::modify, 1, 1, 32 + 6 * 40}}));
}

TEST_F(SplitterTest, extents_far_apart_do_not_share_a_window) {
  use(512, 1U << 20U);
  EXPECT_EQ(cut({segment(0, 10, 20, 3, 4096, 4096)}, false),
            (std::vector<Cut>{
                {Path::bounce, 0, 1, 20}, {Path::bounce, 8, 1, 20}, {Path::bounce, 16, 1, 20}}));
}

TEST_F(SplitterTest, small_transfer_limit_and_long_blocks_bound_the_window) {
  use(4096, 8192);
  EXPECT_EQ(cut({segment(2, 0, 3 * 4096)}, false),
            (std::vector<Cut>{{Path::bounce, 0, 2, 8192}, {Path::bounce, 2, 1, 4096}}));
  use(65536, 65536);
  EXPECT_EQ(cut({segment(2, 0, 65536)}, true), (std::vector<Cut>{{Path::bounce, 0, 1, 65536}}));
}

TEST_F(SplitterTest, piece_that_is_given_back_is_made_again) {
  use(512, 8192);
  const std::vector<backend::Segment> segments{segment(0, 0, 20'000)};
  Splitter splitter;
  splitter.start(segments, false);
  const Piece first = splitter.next();
  const Piece second = splitter.next();
  splitter.rewind(second);
  const Piece again = splitter.next();
  EXPECT_EQ(again.start, second.start);
  EXPECT_EQ(again.length, second.length);
  EXPECT_NE(first.start, second.start);
}

// Whatever the request: every byte is in one piece, in order; windows and commands keep their
// bounds.
TEST_F(SplitterTest, any_request_is_cut_whole_and_within_bounds) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 2000; ++round) {
    const std::uint32_t block = round % 2 == 0 ? 512 : 4096;
    const std::uint64_t most = std::uint64_t{block} << (random() % 8);
    use(block, most);
    std::vector<backend::Segment> segments;
    std::uint64_t total = 0;
    for (std::uint64_t i = 0; i < 1 + random() % 4; ++i) {
      const std::uint64_t length = random() % 3 == 0 ? block * (random() % 40) : random() % 9000;
      const std::uint64_t gap = random() % 3 == 0 ? 0 : random() % 600;
      const std::uint64_t count = random() % 5;
      segments.push_back(segment(random() % 3 == 0 ? random() % 5000 : 4 * (random() % 5000),
                                 random() % 2 == 0 ? block * (random() % 9) : random() % 9999,
                                 length, count, length + gap, length + random() % 2 * gap));
      total += length * count;
    }
    for (const bool write : {false, true}) {
      std::uint64_t sum = 0;
      for (const Cut& piece : cut(segments, write)) {
        sum += piece.bytes;
        ASSERT_NE(piece.bytes, 0U);
        if (piece.path == Path::direct) {
          ASSERT_LE(piece.bytes, most);
          ASSERT_EQ(piece.bytes, piece.blocks * block);
        }
        if (piece.path == Path::bounce) {
          ASSERT_LE(piece.blocks * block,
                    std::max<std::uint64_t>(block, std::min(most, kWindowBytes)));
        }
        ASSERT_TRUE(piece.path != Path::bounce || !write || piece.bytes == piece.blocks * block);
        ASSERT_TRUE(piece.path != Path::modify || (write && piece.blocks == 1));
      }
      ASSERT_EQ(sum, total);
    }
  }
}

}  // namespace
}  // namespace towpath::backends::nvme
