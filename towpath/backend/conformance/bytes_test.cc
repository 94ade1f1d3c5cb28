// Conformance: the right bytes arrive at the right place, and nowhere else.
#include <random>

#include <towpath/backend/conformance/matrix.h>
#include <towpath/backend/conformance/world.h>

namespace towpath::backend::conformance {
namespace {

class BytesConformance : public PairingTest {
 protected:
  /// Every shape in each direction that it can go.
  void move_both_ways(World& world, const Shape& shape) {
    for (const TransferOp op : ways()) ASSERT_NO_FATAL_FAILURE(world.move(op, shape));
  }
};

constexpr std::uint64_t kCounts[] = {1, 2, 1000, 65536};

TEST_P(BytesConformance, every_size_arrives) {
  World world(candidate(), pairing());
  ASSERT_TRUE(world.ready());
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4095},
                                   std::uint64_t{4096}, kMiB, kMiB + 13}) {
    SCOPED_TRACE(size);
    ASSERT_NO_FATAL_FAILURE(move_both_ways(world, {strided({.offset = 8192, .length = size}),
                                                   strided({.offset = 4096, .length = size})}));
  }
}

TEST_P(BytesConformance, unaligned_addresses_on_either_side) {
  World world(candidate(), pairing());
  ASSERT_TRUE(world.ready());
  struct Skew {
    std::uint64_t near, far;
  };
  for (const Skew skew : {Skew{1, 0}, Skew{0, 1}, Skew{511, 511}, Skew{3, 4097}}) {
    for (const std::uint64_t size : {std::uint64_t{1}, std::uint64_t{513}, std::uint64_t{70'001}}) {
      SCOPED_TRACE(testing::Message() << skew.near << " " << skew.far << " " << size);
      ASSERT_NO_FATAL_FAILURE(
          move_both_ways(world, {strided({.offset = 65536 + skew.near, .length = size}),
                                 strided({.offset = 131072 + skew.far, .length = size})}));
    }
  }
}

TEST_P(BytesConformance, strided_lists_of_every_length) {
  World world(candidate(), pairing());
  ASSERT_TRUE(world.ready());
  for (const std::uint64_t count : kCounts) {
    SCOPED_TRACE(count);
    ASSERT_NO_FATAL_FAILURE(move_both_ways(
        world, {strided({.offset = 64, .length = 40, .stride = 48, .count = count}),
                strided({.offset = 128, .length = 40, .stride = 56, .count = count})}));
  }
}

TEST_P(BytesConformance, plain_lists_of_every_length) {
  World world(candidate(), pairing());
  ASSERT_TRUE(world.ready());
  for (const std::uint64_t count : kCounts) {
    SCOPED_TRACE(count);
    ASSERT_NO_FATAL_FAILURE(move_both_ways(
        world, {plain({.offset = 64, .length = 40, .stride = 48, .count = count}),
                plain({.offset = 128, .length = 40, .stride = 40, .count = count})}));
  }
}

TEST_P(BytesConformance, extents_scattered_on_one_side) {
  World world(candidate(), pairing());
  ASSERT_TRUE(world.ready());
  const Row row{.offset = 4096, .length = 2048, .stride = 2112, .count = 1000};
  ASSERT_NO_FATAL_FAILURE(move_both_ways(world, {shuffled(plain(row), 7), strided(row)}));
  ASSERT_NO_FATAL_FAILURE(move_both_ways(world, {strided(row), shuffled(plain(row), 8)}));
}

TEST_P(BytesConformance, extents_scattered_on_both_sides) {
  World world(candidate(), pairing());
  ASSERT_TRUE(world.ready());
  const Row pages{.length = 4096, .stride = 4096, .count = 1000};
  ASSERT_NO_FATAL_FAILURE(
      move_both_ways(world, {shuffled(plain(pages), 1), shuffled(plain(pages), 2)}));
  const Row small{.offset = 3, .length = 16, .stride = 60, .count = 65536};
  const auto order = shuffled(plain(small), 3);
  ASSERT_NO_FATAL_FAILURE(move_both_ways(world, {order, order}));
}

TEST_P(BytesConformance, lengths_of_one_list_may_differ) {
  World world(candidate(), pairing());
  ASSERT_TRUE(world.ready());
  std::mt19937_64 random(11);
  Shape shape;
  for (std::uint64_t at = 0; at + 20'000 < world.near_memory.size();) {
    const std::uint64_t length = random() % 3 == 0 ? 0 : random() % 9000;
    shape.near.push_back({at, length, 0, 1, 0});
    at += length + random() % 100;
  }
  shape.far = shape.near;
  const auto order = random();
  shape.near = shuffled(shape.near, order);
  shape.far = shuffled(shape.far, order);
  ASSERT_NO_FATAL_FAILURE(move_both_ways(world, shape));
}

TEST_P(BytesConformance, indices_choose_what_moves) {
  World world(candidate(), pairing());
  ASSERT_TRUE(world.ready());
  const Row blocks{.length = 4096, .stride = 8192, .count = 256};
  const std::vector<std::uint32_t> here{200, 3, 4, 5, 90};
  const std::vector<std::uint32_t> there{7, 250, 9, 10, 11};
  Shape chosen;
  for (std::size_t i = 0; i < here.size(); ++i) {
    chosen.near.push_back({here[i] * blocks.stride, blocks.length, 0, 1, 0});
    chosen.far.push_back({there[i] * blocks.stride, blocks.length, 0, 1, 0});
  }
  for (const TransferOp op : ways()) {
    world.fill(21);
    auto transfer = world.make(op, {strided(blocks), strided(blocks)},
                               {.local = agent::Selection::of(here),
                                .remote = agent::Selection::of(there),
                                .notification = {},
                                .backends = {}});
    ASSERT_TRUE(transfer.ok()) << transfer.status().to_string();
    ASSERT_NO_FATAL_FAILURE(world.finish(*transfer));
    world.check(op, chosen);
  }
}

TEST_P(BytesConformance, targets_that_overlap_are_refused) {
  World world(candidate(), pairing());
  ASSERT_TRUE(world.ready());
  const auto apart = plain({.length = 100, .stride = 100, .count = 2});
  const auto overlapping = plain({.length = 100, .stride = 99, .count = 2});
  EXPECT_EQ(world.make(TransferOp::read, {overlapping, apart}).code(), Code::invalid_argument);
  EXPECT_EQ(world.make(TransferOp::write, {apart, overlapping}).code(), Code::invalid_argument);
  ASSERT_NO_FATAL_FAILURE(world.move(TransferOp::read, {apart, overlapping}));
}

TEST_P(BytesConformance, transfer_is_posted_again_and_again) {
  World world(candidate(), pairing());
  ASSERT_TRUE(world.ready());
  const Shape shape{strided({.length = 8192, .stride = 10'000, .count = 50}),
                    strided({.offset = 5, .length = 8192, .stride = 9000, .count = 50})};
  for (const TransferOp op : ways()) {
    auto transfer = world.make(op, shape);
    ASSERT_TRUE(transfer.ok()) << transfer.status().to_string();
    for (std::uint64_t round = 0; round < 10; ++round) {
      world.fill(round);
      ASSERT_NO_FATAL_FAILURE(world.finish(*transfer));
      world.check(op, shape);
    }
  }
}

TEST_P(BytesConformance, report_counts_bytes_and_descriptors) {
  World world(candidate(), pairing());
  ASSERT_TRUE(world.ready());
  world.fill(9);
  const Shape shape{strided({.length = 5000, .stride = 6000, .count = 77}),
                    strided({.length = 5000, .stride = 7000, .count = 77})};
  for (const TransferOp op : ways()) {
    auto transfer = world.make(op, shape);
    ASSERT_TRUE(transfer.ok()) << transfer.status().to_string();
    EXPECT_EQ(transfer->report().code(), Code::no_telemetry);
    ASSERT_NO_FATAL_FAILURE(world.finish(*transfer));
    const auto report = transfer->report();
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report->bytes, 77U * 5000U);
    EXPECT_EQ(report->descriptors, 77U);
  }
}

TEST_P(BytesConformance, object_is_put_whole_or_not_at_all) {
  if (pairing().far != Store::object) GTEST_SKIP() << "no object";
  World world(candidate(), pairing());
  ASSERT_TRUE(world.ready());
  const std::uint64_t all = world.far_memory.size();
  const Row pages{.length = 4096, .stride = 4096, .count = all / 4096};
  ASSERT_NO_FATAL_FAILURE(
      world.move(TransferOp::write, {shuffled(plain(pages), 1), shuffled(plain(pages), 2)}));
  for (const Row& part :
       {Row{.offset = 1, .length = all - 1}, Row{.length = 4096, .stride = 8192, .count = 2}}) {
    world.fill(7);
    auto transfer = world.make(TransferOp::write, {strided(part), strided(part)});
    ASSERT_TRUE(transfer.ok()) << transfer.status().to_string();
    ASSERT_TRUE(transfer->post().ok());
    ASSERT_TRUE(world.run_to_end(*transfer));
    EXPECT_EQ(transfer->status().code(), Code::unsupported);
    EXPECT_FALSE(transfer->status().hint().empty());
    world.check(TransferOp::write, {});
  }
}

INSTANTIATE_TEST_SUITE_P(Backend, BytesConformance, testing::ValuesIn(all_pairings()), Labels());

}  // namespace
}  // namespace towpath::backend::conformance
