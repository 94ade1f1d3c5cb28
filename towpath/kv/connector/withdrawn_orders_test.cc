// What becomes of orders that were not built when their request ends, or has to make room.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/kv/connector/scheduler.h>

namespace towpath::kv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

enum class Going : std::uint8_t { preempted, finished };

class WithdrawnOrdersTest : public ::testing::TestWithParam<Going> {
 protected:
  /// 2 blocks of 4 tokens, and a token that is left to compute.
  const std::vector<TokenId> tokens_ = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const std::vector<BlockHash> hashes_ = sequence_hashes({}, tokens_, 4).value();
  ManualClock clock_;

  static ConnectorScheduler make(ConnectorSchedulerOptions options) {
    options.tokens_per_block = 4;
    return ConnectorScheduler::make(options).value();
  }
  /// All is held in tier 1, 4 ms a block, by an engine that computes one in 6 ms.
  ConnectorScheduler make_holding(std::uint64_t background_from_tokens) {
    ConnectorScheduler scheduler =
        make({.background_from_tokens = background_from_tokens, .clock = &clock_});
    scheduler.step_begins(400);
    clock_.advance(std::chrono::milliseconds(600));
    scheduler.step_ends();
    const WorkerReport held{.stored = hashes_,
                            .tiers = {1, 1},
                            .costs = {{.tier = 1, .per_block = std::chrono::milliseconds(4)}}};
    EXPECT_TRUE(scheduler.update(held).ok());
    return scheduler;
  }
  std::uint64_t matched(ConnectorScheduler& scheduler, const RequestId& request) const {
    return scheduler.match({.request = request, .tokens = tokens_})->tokens;
  }
  void compute(ConnectorScheduler& scheduler, const RequestId& request) const {
    EXPECT_EQ(matched(scheduler, request), 0U);
    EXPECT_TRUE(scheduler.allocate(request, std::vector<std::uint64_t>{7, 8, 9}, 0).ok());
    EXPECT_TRUE(scheduler.advance(request, {.computed_before = 0, .computed_after = 8}).ok());
  }
  /// Whether its blocks stay.
  static bool goes(ConnectorScheduler& scheduler, const RequestId& request) {
    if (GetParam() == Going::finished) return scheduler.finish(request)->blocks_stay;
    EXPECT_TRUE(scheduler.preempt(request).ok());
    return false;
  }
};

TEST_P(WithdrawnOrdersTest, its_loads_are_not_made_and_nobody_waits_for_them) {
  for (const std::uint64_t background_from : {std::uint64_t{1}, UINT64_MAX}) {
    auto scheduler = make_holding(background_from);
    ASSERT_EQ(matched(scheduler, "r"), 8U);
    ASSERT_TRUE(scheduler.allocate("r", std::vector<std::uint64_t>{1, 2, 3}, 8).ok());
    EXPECT_EQ(matched(scheduler, "s"), 0U) << "behind two blocks, 16 ms for 12";
    EXPECT_FALSE(goes(scheduler, "r"));
    EXPECT_EQ(matched(scheduler, "s"), 8U);
    EXPECT_THAT(scheduler.build().loads, IsEmpty());
  }
}

TEST_P(WithdrawnOrdersTest, its_saves_are_not_made_and_another_may_make_them) {
  auto scheduler = make({});
  compute(scheduler, "r");
  EXPECT_FALSE(goes(scheduler, "r"));
  EXPECT_THAT(scheduler.build().saves, IsEmpty());
  EXPECT_EQ(scheduler.figures().saved_blocks, 0U);
  compute(scheduler, "s");
  EXPECT_THAT(scheduler.build().saves.at(0).blocks,
              ElementsAre(BlockOrder{hashes_[0], 7}, BlockOrder{hashes_[1], 8, hashes_[0]}));
}

TEST_P(WithdrawnOrdersTest, saves_in_the_background_are_made_of_blocks_that_stay) {
  auto scheduler = make({.saves_in_background = true});
  compute(scheduler, "r");
  const bool stays = goes(scheduler, "r");
  EXPECT_EQ(stays, GetParam() == Going::finished);
  EXPECT_THAT(scheduler.build().saves, SizeIs(stays ? 1 : 0));
}

TEST_P(WithdrawnOrdersTest, a_request_that_is_being_loaded_is_not_preempted) {
  auto scheduler = make_holding(1);
  ASSERT_EQ(matched(scheduler, "r"), 8U);
  ASSERT_TRUE(scheduler.allocate("r", std::vector<std::uint64_t>{1, 2, 3}, 8).ok());
  EXPECT_THAT(scheduler.build().loads, SizeIs(1));
  EXPECT_EQ(scheduler.preempt("r").code(), Code::not_ready);
  ASSERT_TRUE(scheduler.update({.received = {"r"}}).ok());
  EXPECT_TRUE(scheduler.preempt("r").ok());
}

INSTANTIATE_TEST_SUITE_P(All, WithdrawnOrdersTest,
                         ::testing::Values(Going::preempted, Going::finished),
                         [](const auto& going) {
                           return going.param == Going::preempted ? "preempted" : "finished";
                         });

}  // namespace
}  // namespace towpath::kv
