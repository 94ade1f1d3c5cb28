#include <array>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/backends/posix/scripted_engine.h>
#include <towpath/backends/posix/splitter.h>

namespace towpath::backends::posix {
namespace {

using backend::Segment;

constexpr std::uint64_t kBase = 0x10000;

class SplitterTest : public ::testing::Test {
 protected:
  Segment segment(std::uint64_t address, std::uint64_t offset, std::uint64_t length) {
    return {local.get(), disk.get(), address, offset, length};
  }
  std::vector<Piece> split(const std::vector<Segment>& segments, bool write = false) {
    std::vector<Piece> pieces;
    splitter.start(segments, write, limits);
    while (!splitter.done() && pieces.size() < 10'000) pieces.push_back(splitter.next(parts));
    return pieces;
  }

  std::unique_ptr<DiskMemory> disk = make_disk(1 << 20);
  std::unique_ptr<LocalMemory> local = make_local();
  Limits limits{.chunk_bytes = 8192, .vector_below = 4096, .bounce_bytes = 8192};
  std::array<sys::IoPart, 4> parts;
  Splitter splitter;
};

std::vector<std::uint64_t> lengths(const std::vector<Piece>& pieces) {
  std::vector<std::uint64_t> out;
  for (const Piece& piece : pieces) out.push_back(piece.length);
  return out;
}

std::vector<Path> paths(const std::vector<Piece>& pieces) {
  std::vector<Path> out;
  for (const Piece& piece : pieces) out.push_back(piece.path);
  return out;
}

TEST_F(SplitterTest, neighbours_on_both_sides_become_one_part) {
  const auto pieces = split({segment(kBase, 0, 100), segment(kBase + 100, 100, 50)});
  ASSERT_EQ(pieces.size(), 1U);
  EXPECT_EQ(pieces[0].length, 150U);
  EXPECT_EQ(pieces[0].parts, 1U);
}

TEST_F(SplitterTest, small_neighbours_in_the_file_become_several_parts) {
  const auto pieces = split({segment(kBase, 0, 100), segment(kBase + 500, 100, 50)});
  ASSERT_EQ(pieces.size(), 1U);
  EXPECT_EQ(pieces[0].parts, 2U);
  EXPECT_EQ(parts[1].size_bytes, 50U);
}

TEST_F(SplitterTest, large_scattered_pieces_go_side_by_side) {
  const auto pieces = split({segment(kBase, 0, 4096), segment(2 * kBase, 4096, 4096)});
  EXPECT_EQ(lengths(pieces), (std::vector<std::uint64_t>{4096, 4096}));
}

TEST_F(SplitterTest, parts_and_chunks_are_bounded) {
  Segment strided = segment(kBase, 0, 64);
  strided.count = 10;
  strided.local_stride = 128;
  strided.remote_stride = 64;
  EXPECT_EQ(lengths(split({strided})), (std::vector<std::uint64_t>{256, 256, 128}));
  EXPECT_EQ(lengths(split({segment(kBase, 0, 20'000)})),
            (std::vector<std::uint64_t>{8192, 8192, 3616}));
}

TEST_F(SplitterTest, a_gap_in_the_file_begins_another_io) {
  EXPECT_EQ(split({segment(kBase, 0, 64), segment(kBase + 64, 65, 64)}).size(), 2U);
  EXPECT_EQ(split({segment(kBase + 64, 64, 64), segment(kBase, 0, 64)}).size(), 2U);
}

TEST_F(SplitterTest, another_file_begins_another_io) {
  const auto other = make_disk(4096);
  EXPECT_EQ(split({segment(kBase, 0, 64), {local.get(), other.get(), kBase + 64, 64, 64}}).size(),
            2U);
}

TEST_F(SplitterTest, empty_segments_and_extents_are_passed_over) {
  Segment none = segment(kBase, 0, 8);
  none.count = 0;
  EXPECT_TRUE(split({}).empty());
  EXPECT_TRUE(split({none, segment(kBase, 0, 0)}).empty());
  EXPECT_EQ(split({none, segment(kBase, 0, 0), segment(kBase, 7, 1), none}).size(), 1U);
}

TEST_F(SplitterTest, dense_extents_are_one_extent_whatever_their_number) {
  Segment dense = segment(kBase, 0, 16);
  dense.count = 1024;
  dense.local_stride = dense.remote_stride = 16;
  const auto pieces = split({dense});
  EXPECT_EQ(lengths(pieces), (std::vector<std::uint64_t>{8192, 8192}));
  EXPECT_EQ(pieces[1].start, (Position{0, 512, 0}));
}

TEST_F(SplitterTest, rewound_piece_comes_again) {
  const std::vector<Segment> segments{segment(kBase, 0, 10'000)};
  splitter.start(segments, false, limits);
  const Piece first = splitter.next(parts);
  splitter.rewind(first);
  EXPECT_EQ(splitter.next(parts).start, first.start);
}

TEST_F(SplitterTest, aligned_direct_reads_go_straight) {
  disk = make_disk(1 << 20, 512);
  EXPECT_EQ(paths(split({segment(kBase, 512, 8704)})), (std::vector{Path::direct, Path::direct}));
}

TEST_F(SplitterTest, head_and_tail_of_a_direct_read_bounce) {
  disk = make_disk(1 << 20, 512);
  const auto pieces = split({segment(kBase + 100, 612, 1500)});
  EXPECT_EQ(paths(pieces), (std::vector{Path::bounce, Path::direct, Path::bounce}));
  EXPECT_EQ(lengths(pieces), (std::vector<std::uint64_t>{412, 1024, 64}));
}

TEST_F(SplitterTest, direct_reads_that_never_align_bounce_in_whole) {
  disk = make_disk(1 << 20, 512);
  const auto pieces = split({segment(kBase + 1, 512, 10'000)});
  EXPECT_EQ(paths(pieces), (std::vector{Path::bounce, Path::bounce}));
  EXPECT_EQ(pieces[0].length, 8192U);
}

TEST_F(SplitterTest, unaligned_direct_writes_are_buffered) {
  disk = make_disk(1 << 20, 512);
  EXPECT_EQ(paths(split({segment(kBase, 0, 1024)}, true)), (std::vector{Path::direct}));
  EXPECT_EQ(paths(split({segment(kBase + 1, 0, 1024)}, true)), (std::vector{Path::buffered}));
  EXPECT_EQ(paths(split({segment(kBase, 0, 1100)}, true)),
            (std::vector{Path::direct, Path::buffered}));
  disk->file().buffer_writes();
  EXPECT_EQ(paths(split({segment(kBase, 0, 1024)}, true)), (std::vector{Path::buffered}));
}

// Against the plainest model: every byte of the request, once, in order, from its place to its
// place.
TEST_F(SplitterTest, any_request_is_covered_exactly) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](std::uint64_t most) { return random() % (most + 1); };
    disk = make_disk(1 << 20, seed % 3 == 0 ? 512 : 1);
    std::vector<Segment> segments;
    for (std::uint64_t i = pick(6); i > 0; --i) {
      Segment next =
          segment(kBase + pick(9) * 256, pick(9) * 256, pick(4) * 256 + pick(1) * pick(9));
      next.count = pick(5);
      next.local_stride = next.length + pick(1) * 256;
      next.remote_stride = next.length + pick(1) * 256;
      segments.push_back(next);
    }
    std::vector<std::pair<std::uint64_t, std::uint64_t>> wanted, found;
    for (const Segment& one : segments) {
      for (std::uint64_t i = 0; i < one.count; ++i) {
        for (std::uint64_t byte = 0; byte < one.length; ++byte)
          wanted.emplace_back(one.local_address + i * one.local_stride + byte,
                              one.remote_address + i * one.remote_stride + byte);
      }
    }
    splitter.start(segments, seed % 2 == 0, limits);
    while (!splitter.done() && found.size() <= wanted.size()) {
      const Piece piece = splitter.next(parts);
      ASSERT_GT(piece.length, 0U) << "seed " << seed;
      ASSERT_EQ(advance(segments, piece.start, piece.length), splitter.at()) << "seed " << seed;
      std::uint64_t offset = piece.file_offset;
      for (std::uint32_t i = 0; i < piece.parts; ++i) {
        for (std::uint64_t byte = 0; byte < parts[i].size_bytes; ++byte)
          found.emplace_back(address_of(parts[i].data) + byte, offset++);
      }
      ASSERT_EQ(offset - piece.file_offset, piece.length) << "seed " << seed;
    }
    ASSERT_EQ(found, wanted) << "seed " << seed;
  }
}

}  // namespace
}  // namespace towpath::backends::posix
