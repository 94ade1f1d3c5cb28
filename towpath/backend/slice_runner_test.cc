#include <cstring>
#include <new>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/backend/far_copy.h>
#include <towpath/backend/slice_runner.h>
#include <towpath/backend/testing/recording_events.h>

namespace towpath::backend {
namespace {

/// Moves by loads and stores; extents whose remote address is listed fail.
class CopyingMover final : public SliceMover {
 public:
  Status admit(const Request&) override {
    if (has_no_memory) throw std::bad_alloc();
    return refusal;
  }
  Status move(SliceTask& task) override {
    ++slices;
    if (!breakdown.ok()) return breakdown;
    std::uint64_t budget = kSliceBytes;
    if (fail_all_extents) {
      task.fail_segment(error(Code::io_error, "no such page"));
    } else if (task.at().remote_address() == bad_address) {
      task.fail_extent(error(Code::io_error, "no such page"));
    } else {
      task.copy(0, budget);
    }
    return {};
  }

  Status refusal;
  Status breakdown;
  std::uint64_t bad_address = 0;
  bool fail_all_extents = false;
  bool has_no_memory = false;
  int slices = 0;
};

class SliceRunnerTest : public ::testing::Test {
 protected:
  SliceRunnerTest() : source_(8 * kSliceBytes), target_(8 * kSliceBytes) {
    std::iota(reinterpret_cast<std::uint8_t*>(source_.data()),
              reinterpret_cast<std::uint8_t*>(source_.data() + source_.size()), std::uint8_t{1});
  }
  Segment segment(std::uint64_t offset, std::uint64_t length) {
    return {.local_address = address_of(target_.data() + offset),
            .remote_address = address_of(source_.data() + offset),
            .length = length};
  }
  Request request(std::span<const Segment> segments) {
    return {TransferOp::read, &connection_, segments};
  }
  bool same(std::uint64_t offset, std::uint64_t length) {
    return std::memcmp(source_.data() + offset, target_.data() + offset, length) == 0;
  }

  Bytes source_, target_;
  testing::RecordingEvents events_;
  CopyingMover mover_;
  Connection connection_;
  SliceRunner runner_{events_, mover_};
};

TEST_F(SliceRunnerTest, small_transfer_completes_inside_post) {
  const auto operation = runner_.make_operation();
  const std::vector segments{segment(3, 4097)};
  operation->post(request(segments));
  ASSERT_EQ(events_.count(*operation), 1u);
  EXPECT_TRUE(events_.last(*operation).status.ok());
  EXPECT_EQ(events_.last(*operation).bytes, 4097u);
  EXPECT_TRUE(same(3, 4097));
  EXPECT_EQ(std::to_integer<int>(target_[2]), 0);
  EXPECT_EQ(std::to_integer<int>(target_[4100]), 0);
  EXPECT_FALSE(runner_.progress());
}

TEST_F(SliceRunnerTest, write_goes_the_other_way) {
  const auto operation = runner_.make_operation();
  std::vector segments{segment(0, 64)};
  std::swap(segments[0].local_address, segments[0].remote_address);
  operation->post({TransferOp::write, &connection_, segments});
  EXPECT_TRUE(same(0, 64));
}

TEST_F(SliceRunnerTest, large_transfers_take_turns_slice_by_slice) {
  const auto first = runner_.make_operation();
  const auto second = runner_.make_operation();
  const std::vector one{segment(0, 3 * kSliceBytes)};
  const std::vector two{segment(3 * kSliceBytes, 2 * kSliceBytes)};
  first->post(request(one));
  second->post(request(two));
  EXPECT_TRUE(events_.completions.empty());
  EXPECT_TRUE(runner_.progress());  // first: 2 of 3
  EXPECT_TRUE(runner_.progress());  // second: 2 of 2
  EXPECT_EQ(events_.count(*second), 1u);
  EXPECT_FALSE(runner_.progress());
  EXPECT_EQ(events_.count(*first), 1u);
  EXPECT_TRUE(same(0, 5 * kSliceBytes));
}

TEST_F(SliceRunnerTest, transfer_that_no_cache_holds_lands_as_others_do) {
  source_.resize(kFarBytes + 100);
  target_.resize(source_.size());
  std::iota(reinterpret_cast<std::uint8_t*>(source_.data()),
            reinterpret_cast<std::uint8_t*>(source_.data() + source_.size()), std::uint8_t{1});
  const auto operation = runner_.make_operation();
  const std::vector segments{segment(1, 70), segment(99, kFarBytes)};
  operation->post(request(segments));
  while (runner_.progress()) {
  }
  ASSERT_EQ(events_.count(*operation), 1u);
  EXPECT_TRUE(same(1, 70));
  EXPECT_TRUE(same(99, kFarBytes));
  EXPECT_EQ(std::to_integer<int>(target_[71]), 0);
  EXPECT_EQ(std::to_integer<int>(target_[kFarBytes + 99]), 0);
}

TEST_F(SliceRunnerTest, strided_extents_land_one_by_one) {
  const auto operation = runner_.make_operation();
  const std::vector segments{Segment{.local_address = address_of(target_.data()),
                                     .remote_address = address_of(source_.data()),
                                     .length = 3,
                                     .count = 1000,
                                     .local_stride = 3,
                                     .remote_stride = 7}};
  operation->post(request(segments));
  EXPECT_EQ(events_.last(*operation).bytes, 3000u);
  for (std::size_t i = 0; i < 1000; ++i)
    ASSERT_EQ(std::memcmp(target_.data() + 3 * i, source_.data() + 7 * i, 3), 0) << i;
}

TEST_F(SliceRunnerTest, requests_without_bytes_complete_at_once) {
  const auto operation = runner_.make_operation();
  operation->post(request({}));
  EXPECT_TRUE(events_.last(*operation).status.ok());
  Segment endless = segment(0, 0);
  endless.count = UINT64_MAX;
  const std::vector segments{endless, segment(5, 0), endless};
  operation->post(request(segments));
  EXPECT_EQ(events_.count(*operation), 2u);
  EXPECT_TRUE(events_.last(*operation).status.ok());
  EXPECT_EQ(mover_.slices, 0);
}

TEST_F(SliceRunnerTest, cancel_between_slices_completes_at_once) {
  const auto operation = runner_.make_operation();
  const std::vector segments{segment(0, 2 * kSliceBytes)};
  operation->post(request(segments));
  operation->cancel();
  ASSERT_EQ(events_.count(*operation), 1u);
  EXPECT_EQ(events_.last(*operation).status.code(), Code::cancelled);
  EXPECT_EQ(events_.last(*operation).bytes, kSliceBytes);
  EXPECT_TRUE(events_.last(*operation).failures.empty());
  operation->cancel();
  EXPECT_FALSE(runner_.progress());
  EXPECT_EQ(events_.count(*operation), 1u);
}

TEST_F(SliceRunnerTest, refused_request_completes_with_the_reason) {
  mover_.refusal = error(Code::peer_lost, "gone");
  const auto operation = runner_.make_operation();
  const std::vector segments{segment(0, 1)};
  operation->post(request(segments));
  EXPECT_EQ(events_.last(*operation).status, mover_.refusal);
  EXPECT_FALSE(same(0, 1));
}

TEST_F(SliceRunnerTest, request_that_cannot_be_admitted_for_want_of_memory_moves_nothing) {
  mover_.has_no_memory = true;
  const auto operation = runner_.make_operation();
  const std::vector segments{segment(0, 1)};
  operation->post(request(segments));
  ASSERT_EQ(events_.count(*operation), 1u);
  EXPECT_EQ(events_.last(*operation).status.code(), Code::exhausted);
  EXPECT_FALSE(runner_.progress());
  EXPECT_FALSE(same(0, 1));
}

TEST_F(SliceRunnerTest, failing_extent_is_named_and_the_others_are_in_place) {
  const auto operation = runner_.make_operation();
  const std::vector segments{segment(0, 2 * kSliceBytes), segment(2 * kSliceBytes, 10)};
  mover_.bad_address = address_of(source_.data()) + kSliceBytes;
  operation->post(request(segments));
  while (runner_.progress()) continue;
  const auto& end = events_.last(*operation);
  EXPECT_EQ(end.status.code(), Code::io_error);
  EXPECT_EQ(end.bytes, kSliceBytes + 10);
  ASSERT_EQ(end.failures.size(), 1u);
  EXPECT_EQ(end.failures[0].segment, 0u);
  EXPECT_EQ(end.failures[0].bytes, kSliceBytes);
  EXPECT_TRUE(same(2 * kSliceBytes, 10));
}

TEST_F(SliceRunnerTest, failures_are_bounded_however_many_there_are) {
  mover_.fail_all_extents = true;
  const auto operation = runner_.make_operation();
  Segment endless = segment(0, 1);
  endless.count = UINT64_MAX / 2;
  const std::vector segments{endless};
  operation->post(request(segments));
  const auto& end = events_.last(*operation);
  EXPECT_EQ(end.failures.size(), kMaxFailures);
  EXPECT_EQ(end.failures.back().extent, kMaxFailures - 1);
  EXPECT_NE(end.status.message().find(std::to_string(UINT64_MAX / 2)), std::string_view::npos);
}

TEST_F(SliceRunnerTest, breakdown_fails_the_whole_operation) {
  const auto operation = runner_.make_operation();
  const std::vector segments{segment(0, 2 * kSliceBytes)};
  operation->post(request(segments));
  mover_.breakdown = error(Code::peer_lost, "gone");
  EXPECT_FALSE(runner_.progress());
  EXPECT_EQ(events_.last(*operation).status.code(), Code::peer_lost);
}

TEST_F(SliceRunnerTest, fail_all_ends_one_connection_and_no_other) {
  const auto mine = runner_.make_operation();
  const auto other = runner_.make_operation();
  Connection elsewhere;
  const std::vector segments{segment(0, 2 * kSliceBytes)};
  mine->post(request(segments));
  other->post({TransferOp::read, &elsewhere, segments});
  runner_.fail_all(connection_, error(Code::peer_lost, "gone"));
  EXPECT_EQ(events_.last(*mine).status.code(), Code::peer_lost);
  EXPECT_EQ(events_.count(*other), 0u);
  while (runner_.progress()) continue;
  EXPECT_TRUE(events_.last(*other).status.ok());
}

TEST_F(SliceRunnerTest, operation_may_be_posted_again_from_its_completion) {
  const auto operation = runner_.make_operation();
  const std::vector segments{segment(0, 100)};
  int again = 2;
  events_.after_complete = [&](Operation& done) {
    if (again-- > 0) done.post(request(segments));
  };
  operation->post(request(segments));
  EXPECT_EQ(events_.count(*operation), 3u);
}

TEST_F(SliceRunnerTest, operation_may_be_destroyed_by_its_completion) {
  auto operation = runner_.make_operation();
  const std::vector segments{segment(0, 2 * kSliceBytes)};
  events_.after_complete = [&](Operation&) { operation.reset(); };
  operation->post(request(segments));
  EXPECT_FALSE(runner_.progress());
  EXPECT_EQ(operation, nullptr);
}

}  // namespace
}  // namespace towpath::backend
