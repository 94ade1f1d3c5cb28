// What a scheduler makes of a worker that reports all it has again.
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/kv/connector/scheduler.h>

namespace towpath::kv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint64_t kTokensPerBlock = 4;

/// Two blocks, and a token that is left to compute.
std::vector<TokenId> two_blocks() { return {1, 2, 3, 4, 5, 6, 7, 8, 9}; }

ConnectorScheduler make_scheduler(ConnectorSchedulerOptions options = {}) {
  options.tokens_per_block = kTokensPerBlock;
  return ConnectorScheduler::make(options).value();
}

// Beyond what is kept for a caller that takes no events.
TEST(ResyncTest, no_event_of_a_large_report_is_dropped) {
  constexpr std::size_t kMany = 100'000;
  auto scheduler = make_scheduler({.lasting_events = true});
  WorkerReport report{.is_first = true, .stored = std::vector<BlockHash>(kMany)};
  std::iota(report.stored.begin(), report.stored.end(), BlockHash{1});
  report.lasting = report.stored;
  ASSERT_TRUE(scheduler.update(report).ok());
  EXPECT_THAT(scheduler.take_events(), SizeIs(2 * kMany));
  ASSERT_TRUE(scheduler.update(report).ok());
  EXPECT_THAT(scheduler.take_events(), SizeIs(4 * kMany)) << "all went, and came back";
  ASSERT_TRUE(scheduler.update({.is_first = true}).ok());
  EXPECT_THAT(scheduler.take_events(), SizeIs(2 * kMany)) << "all went";
}

// A hint is open, and two blocks are being saved.
TEST(ResyncTest, a_worker_that_goes_on_still_does_what_it_was_ordered) {
  const auto tokens = two_blocks();
  const auto hashes = sequence_hashes({}, tokens, kTokensPerBlock).value();
  for (const bool goes_on : {true, false}) {
    auto scheduler = make_scheduler();
    ASSERT_TRUE(scheduler.match({.request = "r", .tokens = tokens}).ok());
    ASSERT_TRUE(scheduler.allocate("r", std::vector<std::uint64_t>{7, 8, 9}, 0).ok());
    const auto saved_next = [&] {
      EXPECT_TRUE(scheduler.advance("r", {.computed_before = 0, .computed_after = 8}).ok());
      return scheduler.build().saves.size();
    };
    ASSERT_TRUE(scheduler.hint("r", {.id = "mine"}).ok());
    EXPECT_EQ(saved_next(), 1U);
    ASSERT_TRUE(scheduler.update({.is_first = true, .goes_on = goes_on}).ok());
    EXPECT_THAT(scheduler.take_answered_hints(), SizeIs(goes_on ? 0 : 1));
    EXPECT_EQ(saved_next(), goes_on ? 0U : 1U);
    ASSERT_TRUE(scheduler.update({.stored = hashes}).ok());
    EXPECT_EQ(scheduler.match({.request = "s", .tokens = tokens})->tokens, 8U);
  }
}

TEST(ResyncTest, what_a_worker_that_goes_on_loads_is_still_waited_for) {
  const auto tokens = two_blocks();
  const WorkerReport held{.stored = sequence_hashes({}, tokens, kTokensPerBlock).value(),
                          .tiers = {1, 1},
                          .costs = {{.tier = 1, .per_block = std::chrono::milliseconds(4)}}};
  for (const bool goes_on : {true, false}) {
    ManualClock clock;
    auto scheduler = make_scheduler({.background_from_tokens = 1, .clock = &clock});
    scheduler.step_begins(400);
    clock.advance(std::chrono::milliseconds(600));  // 6 a block
    scheduler.step_ends();
    ASSERT_TRUE(scheduler.update(held).ok());
    ASSERT_EQ(scheduler.match({.request = "r", .tokens = tokens})->tokens, 8U);
    ASSERT_TRUE(scheduler.allocate("r", std::vector<std::uint64_t>{7, 8, 9}, 8).ok());
    const std::uint64_t step = scheduler.build().step;
    WorkerReport again = held;
    again.is_first = true;
    again.goes_on = goes_on;
    if (!goes_on) again.first_step = step + 1;
    ASSERT_TRUE(scheduler.update(again).ok());
    EXPECT_EQ(scheduler.match({.request = "s", .tokens = tokens})->tokens, goes_on ? 0U : 8U)
        << "behind two blocks, 16 ms for 12";
  }
}

TEST(ResyncTest, what_an_earlier_life_was_to_load_is_waited_for_no_more) {
  const auto tokens = two_blocks();
  WorkerReport held{.stored = sequence_hashes({}, tokens, kTokensPerBlock).value()};
  auto scheduler = make_scheduler({.workers = 2, .background_from_tokens = 1});
  for (const std::uint32_t worker : {1U, 0U}) {
    held.worker = worker;
    ASSERT_TRUE(scheduler.update(held).ok());
  }
  const auto load = [&](const RequestId& request) {
    EXPECT_EQ(scheduler.match({.request = request, .tokens = tokens})->tokens, 8U);
    EXPECT_TRUE(scheduler.allocate(request, std::vector<std::uint64_t>{7, 8, 9}, 8).ok());
    return scheduler.build().step;
  };
  (void)load("early");
  const std::uint64_t step = load("late");
  held.is_first = true;
  ASSERT_TRUE(scheduler.update(held).ok());
  ASSERT_TRUE(scheduler.update({.worker = 1, .received = {"early"}}).ok());
  EXPECT_EQ(scheduler.preempt("early").code(), Code::not_ready) << "it may have been given it";
  ASSERT_TRUE(scheduler.update({.first_step = step}).ok());
  EXPECT_TRUE(scheduler.preempt("early").ok());
  ASSERT_TRUE(scheduler.update({.worker = 1, .received = {"late", "late"}}).ok());
  EXPECT_EQ(scheduler.preempt("late").code(), Code::not_ready) << "this life was given it";
  ASSERT_TRUE(scheduler.update({.received = {"late"}}).ok());
  EXPECT_FALSE(scheduler.finish("late")->blocks_stay);
}

TEST(ResyncTest, a_hint_that_was_sent_to_an_earlier_life_is_rejected_and_no_other) {
  auto scheduler = make_scheduler();
  ASSERT_TRUE(scheduler.match({.request = "r", .tokens = two_blocks()}).ok());
  ASSERT_TRUE(scheduler.hint("r", {.id = "sent"}).ok());
  (void)scheduler.build();
  ASSERT_TRUE(scheduler.hint("r", {.id = "next"}).ok());
  ASSERT_TRUE(scheduler.update({.is_first = true}).ok());
  const auto lost = scheduler.take_answered_hints();
  ASSERT_THAT(lost, SizeIs(1));
  EXPECT_EQ(lost[0].id, "sent");
  EXPECT_EQ(lost[0].answer.outcome, HintOutcome::rejected);
  const HintAnswer answer{.number = scheduler.build().hints.at(0).number};
  ASSERT_TRUE(scheduler.update({.hints = {answer}}).ok());
  EXPECT_THAT(scheduler.take_answered_hints(), SizeIs(1));
}

TEST(ResyncTest, the_answer_to_a_hint_is_the_least_of_all_workers) {
  auto scheduler = make_scheduler({.workers = 2});
  ASSERT_TRUE(scheduler.match({.request = "r", .tokens = two_blocks()}).ok());
  ASSERT_TRUE(scheduler.hint("r", {.id = "mine"}).ok());
  const std::uint64_t number = scheduler.build().hints.at(0).number;
  const HintAnswer clipped{
      .number = number, .outcome = HintOutcome::clipped, .blocks = 5, .left = 3, .why = "full"};
  ASSERT_TRUE(scheduler.update({.hints = {clipped}}).ok());
  ASSERT_TRUE(
      scheduler.update({.worker = 1, .hints = {{.number = number, .blocks = 4, .left = 4}}}).ok());
  const auto answered = scheduler.take_answered_hints();
  ASSERT_THAT(answered, SizeIs(1));
  const HintAnswer least{
      .number = number, .outcome = HintOutcome::clipped, .blocks = 4, .left = 4, .why = "full"};
  EXPECT_EQ(answered[0].answer, least);
}

TEST(ResyncTest, a_block_of_a_later_part_still_has_its_tokens) {
  const auto tokens = two_blocks();
  const auto hashes = sequence_hashes({}, tokens, kTokensPerBlock).value();
  auto scheduler = make_scheduler({.workers = 2, .events_with_tokens = true});
  for (const std::uint32_t worker : {0U, 1U})
    ASSERT_TRUE(scheduler.update({.worker = worker, .stored = hashes}).ok());
  ASSERT_EQ(scheduler.match({.request = "r", .tokens = tokens})->tokens, 8U);  // names them
  EXPECT_THAT(scheduler.take_events(), SizeIs(2));
  ASSERT_TRUE(
      scheduler.update({.is_first = true, .more_follows = true, .stored = {hashes[0]}}).ok());
  EXPECT_FALSE(scheduler.holds(hashes[1]));
  ASSERT_TRUE(scheduler.update({.worker = 1, .is_first = true, .stored = hashes}).ok());
  (void)scheduler.take_events();
  ASSERT_TRUE(scheduler.update({.stored = {hashes[1]}}).ok());
  EXPECT_THAT(
      scheduler.take_events(),
      ElementsAre(HeldBlockEvent{.hash = hashes[1], .parent = hashes[0], .tokens = {5, 6, 7, 8}}));
}

TEST(ResyncTest, only_what_is_gone_is_removed_of_a_worker_that_goes_on) {
  const auto hashes = sequence_hashes({}, two_blocks(), kTokensPerBlock).value();
  auto scheduler = make_scheduler();
  ASSERT_TRUE(scheduler.update({.is_first = true, .stored = {hashes[0], hashes[1], 3}}).ok());
  EXPECT_THAT(scheduler.take_events(), SizeIs(3));
  ASSERT_TRUE(
      scheduler
          .update({.is_first = true, .goes_on = true, .more_follows = true, .stored = {hashes[0]}})
          .ok());
  EXPECT_THAT(scheduler.take_events(), IsEmpty());
  EXPECT_TRUE(scheduler.holds(hashes[1])) << "it may yet be reported";
  ASSERT_TRUE(scheduler.update({.stored = {hashes[1]}}).ok());
  EXPECT_THAT(scheduler.take_events(),
              ElementsAre(HeldBlockEvent{.kind = BlockEvent::Kind::removed, .hash = 3}));
  EXPECT_TRUE(scheduler.holds(hashes[1]));
}

}  // namespace
}  // namespace towpath::kv
