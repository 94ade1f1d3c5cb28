#include "tools/replay/stream.h"

#include <gtest/gtest.h>

namespace towpath::tools::replay {
namespace {

RecordedTransfer transfer(std::int64_t at, std::uint64_t bytes, std::uint64_t runs) {
  return {.at = Duration(at),
          .node = "decode",
          .peer = "prefill",
          .bytes = bytes,
          .descriptors = 3,
          .runs = runs,
          .took = Duration(10),
          .outcome = Outcome::done};
}

Stream planned(const std::vector<RecordedTransfer>& recorded) {
  return plan_stream(recorded).value();
}

TEST(StreamTest, runs_are_of_one_length_and_lie_apart) {
  const Stream stream = planned({transfer(7, 4096, 1), transfer(9, 4000, 4), transfer(9, 10, 4)});
  EXPECT_EQ(stream.moves[0],
            (Stream::Move{.run_bytes = 4096, .stride = 4096, .took = Duration(10)}));
  EXPECT_EQ(stream.moves[1].run_bytes, 1000U);
  EXPECT_EQ(stream.moves[1].stride, 1064U);
  EXPECT_EQ(stream.moves[1].runs, 4U);
  EXPECT_EQ(stream.moves[1].at, Duration(2)) << "from the first on";
  EXPECT_EQ(stream.moves[2].bytes(), 12U) << "rounded up";
  EXPECT_EQ(stream.recorded_bytes, 4096U + 4000 + 10);
  EXPECT_EQ(stream.area_bytes, 4 * 1064U);
}

TEST(StreamTest, numbers_that_make_no_sense_are_settled_or_refused) {
  EXPECT_EQ(planned({transfer(0, 9, 0)}).moves[0].runs, 3U) << "unknown: as many as descriptors";
  EXPECT_EQ(planned({transfer(0, 3, UINT64_MAX)}).moves[0].runs, 3U);
  EXPECT_EQ(plan_stream(std::vector{transfer(0, kMaxMoveBytes + 1, 1)}).code(), Code::out_of_range);
  EXPECT_EQ(plan_stream({}).code(), Code::invalid_argument);
}

TEST(StreamTest, what_moves_nothing_between_nodes_is_left_out) {
  RecordedTransfer own = transfer(0, 64, 1);
  own.peer = own.node;
  RecordedTransfer far = transfer(5, 64, 1);
  far.remote = MemoryKind::device;
  const Stream stream = planned({own, transfer(1, 0, 0), far});
  EXPECT_EQ(stream.moves.size(), 1U);
  EXPECT_EQ(stream.own, 1U);
  EXPECT_EQ(stream.empty, 1U);
  EXPECT_EQ(stream.elsewhere, 1U);
  EXPECT_EQ(plan_stream(std::vector{own}).code(), Code::invalid_argument);
}

TEST(StreamTest, as_many_move_at_a_time_as_did) {
  EXPECT_EQ(planned({transfer(0, 64, 1), transfer(9, 64, 1), transfer(10, 64, 1)}).lanes, 2U);
  RecordedTransfer stuck = transfer(0, 64, 1);
  stuck.took = Duration(0);
  EXPECT_EQ(planned({stuck, transfer(50, 64, 1), transfer(99, 64, 1)}).lanes, 2U);
  EXPECT_EQ(planned({transfer(0, kMaxMoveBytes, 1), transfer(1, 64, 1)}).lanes, 1U) << "no room";
}

}  // namespace
}  // namespace towpath::tools::replay
