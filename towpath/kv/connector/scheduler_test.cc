#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/kv/connector/scheduler.h>

namespace towpath::kv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Order = BlockOrder;
constexpr std::uint64_t kPerBlock = 4;

std::vector<TokenId> prompt_of(std::size_t tokens, TokenId first = 1) {
  std::vector<TokenId> prompt(tokens);
  std::iota(prompt.begin(), prompt.end(), first);
  return prompt;
}

class ConnectorSchedulerTest : public ::testing::Test {
 protected:
  ConnectorScheduler make(ConnectorSchedulerOptions options = {}) {
    options.tokens_per_block = kPerBlock;
    return ConnectorScheduler::make(options).value();
  }
  std::vector<BlockHash> hashes_of(const std::vector<TokenId>& tokens) {
    return sequence_hashes({}, tokens, kPerBlock).value();
  }
  /// As if all of the prompt's blocks had been saved.
  void hold(ConnectorScheduler& scheduler, const std::vector<TokenId>& tokens) {
    ASSERT_TRUE(scheduler.update({.stored = hashes_of(tokens)}).ok());
  }
  std::uint64_t matched(ConnectorScheduler& scheduler, const std::vector<TokenId>& tokens,
                        std::uint64_t computed = 0) {
    return scheduler.match({.request = "r", .tokens = tokens, .computed = computed})->tokens;
  }
};

TEST_F(ConnectorSchedulerTest, whole_blocks_are_matched_and_a_token_is_left_to_compute) {
  auto scheduler = make();
  EXPECT_EQ(matched(scheduler, prompt_of(12)), 0U);
  hold(scheduler, prompt_of(12));
  EXPECT_EQ(matched(scheduler, prompt_of(13)), 12U);
  EXPECT_EQ(matched(scheduler, prompt_of(12)), 8U);
  EXPECT_EQ(matched(scheduler, prompt_of(13), 4), 8U);
  EXPECT_EQ(matched(scheduler, prompt_of(13), 12), 0U);
  EXPECT_EQ(matched(scheduler, prompt_of(13), 5), 0U) << "the middle of a block";
  EXPECT_EQ(matched(scheduler, prompt_of(13, 2)), 0U) << "other tokens";
  EXPECT_EQ(scheduler.match({.request = "r", .tokens = prompt_of(13), .room = "adapter"})->tokens,
            0U);
}

TEST_F(ConnectorSchedulerTest, who_waits_in_the_queue_is_matched_again_by_what_is_known) {
  auto scheduler = make();
  EXPECT_EQ(scheduler.match_again("r", 0).status().code(), Code::not_found);
  EXPECT_EQ(matched(scheduler, prompt_of(13)), 0U);
  hold(scheduler, prompt_of(12));
  EXPECT_EQ(scheduler.match_again("r", 0)->tokens, 12U);
  EXPECT_EQ(scheduler.match_again("r", 4)->tokens, 8U);
  EXPECT_EQ(scheduler.match_again("r", 14).status().code(), Code::invalid_argument);
  ASSERT_TRUE(scheduler.update({.lost = {hashes_of(prompt_of(12))[1]}}).ok());
  EXPECT_EQ(scheduler.match_again("r", 0)->tokens, 4U);
  ASSERT_TRUE(scheduler.allocate("r", std::vector<std::uint64_t>{50, 51, 52, 53}, 4).ok());
  EXPECT_EQ(scheduler.build().loads.size(), 1U);
}

TEST_F(ConnectorSchedulerTest, what_is_lost_ends_the_match_there) {
  auto scheduler = make();
  hold(scheduler, prompt_of(16));
  ASSERT_TRUE(scheduler.update({.lost = {hashes_of(prompt_of(16))[1]}}).ok());
  EXPECT_EQ(matched(scheduler, prompt_of(17)), 4U);
}

TEST_F(ConnectorSchedulerTest, loads_go_to_the_blocks_behind_what_was_computed) {
  auto scheduler = make();
  const auto tokens = prompt_of(17);
  const auto hashes = hashes_of(tokens);
  hold(scheduler, tokens);
  EXPECT_EQ(matched(scheduler, tokens, 4), 12U);
  const std::vector<std::uint64_t> blocks = {50, 51, 52, 53, 54};
  EXPECT_EQ(scheduler.allocate("r", blocks, 16).code(), Code::invalid_argument);
  EXPECT_EQ(scheduler.allocate("r", blocks, 7).code(), Code::invalid_argument);
  EXPECT_EQ(scheduler.allocate("other", blocks, 0).code(), Code::not_found);
  ASSERT_TRUE(scheduler.allocate("r", blocks, 8).ok());
  const StepOrders orders = scheduler.build();
  ASSERT_EQ(orders.loads.size(), 1U);
  EXPECT_FALSE(orders.loads[0].in_background);
  EXPECT_THAT(orders.loads[0].blocks,
              ElementsAre(Order{hashes[1], 51, hashes[0]}, Order{hashes[2], 52, hashes[1]}));
  EXPECT_THAT(scheduler.build().loads, IsEmpty());
}

TEST_F(ConnectorSchedulerTest, blocks_are_saved_once_when_they_are_complete) {
  auto scheduler = make();
  const auto tokens = prompt_of(10);
  const auto hashes = hashes_of(prompt_of(12));
  EXPECT_EQ(matched(scheduler, tokens), 0U);
  const std::vector<std::uint64_t> blocks = {7, 8, 9};
  ASSERT_TRUE(scheduler.allocate("r", blocks, 0).ok());
  ASSERT_TRUE(scheduler.advance("r", {.computed_before = 0, .computed_after = 10}).ok());
  EXPECT_THAT(scheduler.build().saves.at(0).blocks,
              ElementsAre(Order{hashes[0], 7}, Order{hashes[1], 8, hashes[0]}));
  // The answer is not in yet: computed again, it is not saved again.
  ASSERT_TRUE(scheduler.advance("r", {.computed_before = 4, .computed_after = 10}).ok());
  EXPECT_THAT(scheduler.build().saves, IsEmpty());
  // One of them could not be saved: it may be tried again.
  ASSERT_TRUE(scheduler.update({.stored = {hashes[0]}, .lost = {hashes[1]}}).ok());
  const std::vector<TokenId> generated = {11, 12};
  ASSERT_TRUE(
      scheduler.advance("r", {.computed_before = 4, .computed_after = 12, .new_tokens = generated})
          .ok());
  EXPECT_THAT(scheduler.build().saves.at(0).blocks,
              ElementsAre(Order{hashes[1], 8, hashes[0]}, Order{hashes[2], 9, hashes[1]}));
  EXPECT_EQ(scheduler.advance("r", {.computed_before = 12, .computed_after = 13}).code(),
            Code::invalid_argument)
      << "a token that nobody told";
}

TEST_F(ConnectorSchedulerTest, what_came_with_a_step_that_makes_no_sense_may_come_again) {
  auto scheduler = make();
  const auto tokens = prompt_of(12);
  const std::span all(tokens);
  ASSERT_TRUE(scheduler.match({.request = "r", .tokens = all.first(8)}).ok());
  ASSERT_TRUE(scheduler.allocate("r", std::vector<std::uint64_t>{7, 8}, 0).ok());
  ConnectorScheduler::Progress step{
      .computed_before = 0, .computed_after = 12, .new_tokens = all.subspan(8)};
  EXPECT_EQ(scheduler.advance("r", step).code(), Code::invalid_argument) << "without a block";
  const std::vector<std::uint64_t> more = {9};
  step.new_blocks = more;
  ASSERT_TRUE(scheduler.advance("r", step).ok());
  const auto hashes = hashes_of(tokens);
  EXPECT_THAT(scheduler.build().saves.at(0).blocks,
              ElementsAre(Order{hashes[0], 7}, Order{hashes[1], 8, hashes[0]},
                          Order{hashes[2], 9, hashes[1]}));
  step = {.computed_before = 12, .computed_after = 16, .new_tokens = all.first(4)};
  EXPECT_FALSE(scheduler.advance("r", step).ok());
  step.new_blocks = more;
  ASSERT_TRUE(scheduler.advance("r", step).ok());
  EXPECT_THAT(scheduler.build().saves.at(0).blocks, ::testing::SizeIs(1));
}

TEST_F(ConnectorSchedulerTest, a_block_counts_when_all_workers_hold_it) {
  auto scheduler = make({.workers = 2});
  const auto hashes = hashes_of(prompt_of(4));
  ASSERT_TRUE(scheduler.update({.worker = 0, .stored = hashes}).ok());
  EXPECT_EQ(matched(scheduler, prompt_of(5)), 0U);
  ASSERT_TRUE(scheduler.update({.worker = 1, .stored = hashes}).ok());
  EXPECT_EQ(matched(scheduler, prompt_of(5)), 4U);
  ASSERT_TRUE(scheduler.update({.worker = 0, .lost = hashes}).ok());
  EXPECT_EQ(matched(scheduler, prompt_of(5)), 0U);
  EXPECT_THAT(scheduler.take_events(),
              ElementsAre(HeldBlockEvent{.kind = BlockEvent::Kind::stored, .hash = hashes[0]},
                          HeldBlockEvent{.kind = BlockEvent::Kind::removed, .hash = hashes[0]}));
  EXPECT_EQ(scheduler.update({.worker = 2}).code(), Code::invalid_argument);
}

TEST_F(ConnectorSchedulerTest, events_say_the_tokens_of_what_a_request_saved) {
  auto scheduler = make({.workers = 2, .events_with_tokens = true});
  const auto tokens = prompt_of(10);
  const auto hashes = hashes_of(tokens);
  ASSERT_EQ(scheduler.match({.request = "r", .tokens = tokens})->tokens, 0U);
  ASSERT_TRUE(scheduler.allocate("r", std::vector<std::uint64_t>{7, 8, 9}, 0).ok());
  ASSERT_TRUE(scheduler.advance("r", {.computed_before = 0, .computed_after = 10}).ok());
  EXPECT_THAT(scheduler.build().saves, SizeIs(1));
  ASSERT_TRUE(scheduler.finish("r").ok());
  ASSERT_TRUE(scheduler.update({.worker = 0, .stored = hashes}).ok());
  EXPECT_THAT(scheduler.take_events(), IsEmpty()) << "a worker does not hold them yet";
  ASSERT_TRUE(scheduler.update({.worker = 1, .stored = hashes}).ok());
  EXPECT_THAT(
      scheduler.take_events(),
      ElementsAre(HeldBlockEvent{.hash = hashes[0], .tokens = {1, 2, 3, 4}},
                  HeldBlockEvent{.hash = hashes[1], .parent = hashes[0], .tokens = {5, 6, 7, 8}}));
  ASSERT_TRUE(scheduler.update({.worker = 0, .lost = {hashes[1]}}).ok());
  EXPECT_THAT(scheduler.take_events(),
              ElementsAre(HeldBlockEvent{.kind = BlockEvent::Kind::removed, .hash = hashes[1]}));
}

TEST_F(ConnectorSchedulerTest, what_was_kept_before_is_reported_when_a_prompt_names_its_tokens) {
  auto scheduler = make({.events_with_tokens = true});
  const auto tokens = prompt_of(9);
  const auto root = root_of_room(root_of({}), "adapter");
  const std::vector<BlockHash> hashes = {extend(root, prompt_of(4)),
                                         extend(extend(root, prompt_of(4)), prompt_of(4, 5))};
  ASSERT_TRUE(scheduler.update({.is_first = true, .stored = hashes}).ok());
  EXPECT_THAT(scheduler.take_events(), IsEmpty()) << "nobody knows their tokens";
  ASSERT_TRUE(scheduler.update({.lost = {hashes[1]}}).ok());
  EXPECT_THAT(scheduler.take_events(), IsEmpty()) << "it was never told";
  EXPECT_EQ(scheduler.match({.request = "r", .tokens = tokens, .room = "adapter"})->tokens, 4U);
  const HeldBlockEvent stored{.hash = hashes[0], .tokens = {1, 2, 3, 4}, .room = "adapter"};
  EXPECT_THAT(scheduler.take_events(), ElementsAre(stored));
  EXPECT_EQ(scheduler.match({.request = "r", .tokens = tokens, .room = "adapter"})->tokens, 4U);
  EXPECT_THAT(scheduler.take_events(), IsEmpty()) << "told before";
  // The worker begins anew, and has it still.
  ASSERT_TRUE(scheduler.update({.is_first = true, .stored = {hashes[0]}}).ok());
  EXPECT_THAT(
      scheduler.take_events(),
      ElementsAre(HeldBlockEvent{.kind = BlockEvent::Kind::removed, .hash = hashes[0]}, stored));
}

TEST_F(ConnectorSchedulerTest, what_outlives_all_workers_is_reported_when_it_does) {
  using Kind = BlockEvent::Kind;
  for (const bool with_tokens : {false, true}) {
    auto scheduler =
        make({.workers = 2, .events_with_tokens = with_tokens, .lasting_events = true});
    const auto hashes = hashes_of(prompt_of(4));
    const auto events_after = [&](const WorkerReport& report) {
      EXPECT_TRUE(scheduler.update(report).ok());
      (void)matched(scheduler, prompt_of(5));  // names the tokens of what is held
      std::vector<std::pair<Kind, bool>> events;
      for (const HeldBlockEvent& event : scheduler.take_events()) {
        EXPECT_EQ(event.hash, hashes[0]);
        EXPECT_EQ(event.tokens.size(), with_tokens && event.kind == Kind::stored ? 4U : 0U);
        events.emplace_back(event.kind, event.is_lasting);
      }
      return events;
    };
    const WorkerReport kept{.worker = 0, .stored = hashes};
    WorkerReport lasting = kept;
    lasting.lasting = hashes;
    WorkerReport other = kept, others_lasting = lasting;
    other.worker = others_lasting.worker = 1;
    EXPECT_THAT(events_after(lasting), IsEmpty());
    EXPECT_THAT(events_after(other), ElementsAre(std::pair(Kind::stored, false)));
    EXPECT_EQ(scheduler.figures().not_lasting, 1U);
    EXPECT_THAT(events_after(others_lasting), ElementsAre(std::pair(Kind::stored, true)));
    EXPECT_EQ(scheduler.figures().not_lasting, 0U);
    EXPECT_THAT(events_after(others_lasting), IsEmpty()) << "reported before";
    EXPECT_THAT(events_after(kept), ElementsAre(std::pair(Kind::removed, true)))
        << "its files are gone, and memory has it";
    EXPECT_THAT(events_after(lasting), ElementsAre(std::pair(Kind::stored, true)));
    EXPECT_THAT(events_after({.worker = 1, .lost = hashes}),
                ElementsAre(std::pair(Kind::removed, true), std::pair(Kind::removed, false)));
  }
  auto scheduler = make();
  ASSERT_TRUE(scheduler.update({.stored = {1}, .lasting = {1}}).ok());
  EXPECT_THAT(scheduler.take_events(), ElementsAre(HeldBlockEvent{.hash = 1})) << "nobody asked";
}

TEST_F(ConnectorSchedulerTest, a_block_is_reported_behind_the_one_it_stands_on) {
  auto scheduler = make({.events_with_tokens = true});
  const auto hashes = hashes_of(prompt_of(12));
  const WorkerReport backwards{.is_first = true, .stored = {hashes[2], hashes[0], hashes[1]}};
  ASSERT_TRUE(scheduler.update(backwards).ok());
  EXPECT_EQ(matched(scheduler, prompt_of(13)), 12U);  // names their tokens
  (void)scheduler.take_events();
  ASSERT_TRUE(scheduler.update(backwards).ok());
  std::vector<BlockHash> stored;
  for (const HeldBlockEvent& event : scheduler.take_events())
    if (event.kind == BlockEvent::Kind::stored) stored.push_back(event.hash);
  EXPECT_EQ(stored, hashes);
}

TEST_F(ConnectorSchedulerTest, a_worker_that_begins_anew_holds_only_what_it_says_then) {
  auto scheduler = make();
  hold(scheduler, prompt_of(8));
  const auto hashes = hashes_of(prompt_of(8));
  ASSERT_TRUE(scheduler.update({.is_first = true, .stored = {hashes[0]}}).ok());
  EXPECT_EQ(matched(scheduler, prompt_of(9)), 4U);
}

TEST_F(ConnectorSchedulerTest, a_request_ends_once_and_its_blocks_stay_while_they_are_loaded) {
  auto scheduler = make({.workers = 2, .background_from_tokens = 8});
  for (std::uint32_t worker : {0U, 1U})
    ASSERT_TRUE(scheduler.update({.worker = worker, .stored = hashes_of(prompt_of(8))}).ok());
  EXPECT_TRUE(scheduler.match({.request = "r", .tokens = prompt_of(9)})->in_background);
  ASSERT_TRUE(scheduler.allocate("r", std::vector<std::uint64_t>{1, 2, 3}, 8).ok());
  EXPECT_TRUE(scheduler.build().loads.at(0).in_background);
  ASSERT_TRUE(scheduler.update({.worker = 0, .received = {"r"}}).ok());
  EXPECT_TRUE(scheduler.finish("r")->blocks_stay);
  EXPECT_EQ(scheduler.finish("r").code(), Code::not_found);

  EXPECT_TRUE(scheduler.match({.request = "s", .tokens = prompt_of(9)})->in_background);
  ASSERT_TRUE(scheduler.allocate("s", std::vector<std::uint64_t>{1, 2, 3}, 8).ok());
  EXPECT_EQ(scheduler.build().loads.size(), 1U);
  for (std::uint32_t worker : {0U, 1U})
    ASSERT_TRUE(scheduler.update({.worker = worker, .received = {"s"}}).ok());
  EXPECT_FALSE(scheduler.finish("s")->blocks_stay);
  EXPECT_THAT(scheduler.build().ends, IsEmpty());
}

TEST_F(ConnectorSchedulerTest, saves_in_the_background_are_settled_or_waited_for) {
  auto scheduler = make({.saves_in_background = true});
  for (const char* id : {"ends", "goes"}) {
    const auto tokens = prompt_of(4, id[0]);
    ASSERT_TRUE(scheduler.match({.request = id, .tokens = tokens}).ok());
    ASSERT_TRUE(scheduler.allocate(id, std::vector<std::uint64_t>{1}, 0).ok());
    ASSERT_TRUE(scheduler.advance(id, {.computed_before = 0, .computed_after = 4}).ok());
  }
  EXPECT_EQ(scheduler.build().saves.size(), 2U);
  EXPECT_TRUE(scheduler.finish("ends")->blocks_stay);
  ASSERT_TRUE(scheduler.preempt("goes").ok());
  const StepOrders orders = scheduler.build();
  EXPECT_THAT(orders.ends, ElementsAre("ends"));
  EXPECT_THAT(orders.settle, ElementsAre("goes"));
}

TEST_F(ConnectorSchedulerTest, orders_and_reports_travel_and_what_is_cut_is_refused) {
  const StepOrders orders{.step = 3,
                          .loads = {{"a", true, {{1, 2}, {3, UINT64_MAX}}}},
                          .saves = {{"b", false, {{4, 5}, {6, 7, 4}}}, {"c", false, {}}},
                          .settle = {"d"},
                          .ends = {"e", "f"}};
  const Bytes reported = encode(orders).value();
  EXPECT_EQ(decode_step_orders(reported).value(), orders);
  StepOrders urgent = orders;
  urgent.saves[1].priority = 255;
  urgent.saves[1].tenant = tenant_of("a salt");
  EXPECT_EQ(decode_step_orders(encode(urgent).value()).value(), urgent);
  EXPECT_EQ(orders.saves[0].priority, kUsualPriority) << "is what nobody has to say";
  const WorkerReport report{.worker = 63,
                            .is_first = true,
                            .stored = {1, 2},
                            .lost = {3},
                            .received = {"a"},
                            .sent = {"b", "c"},
                            .failed_blocks = {9}};
  const Bytes said = encode(report).value();
  EXPECT_EQ(decode_worker_report(said).value(), report);
  WorkerReport measured = report;
  measured.tiers = {0, 15};
  measured.lasting = {2};
  measured.goes_on = measured.more_follows = true;
  measured.first_step = UINT64_MAX;
  measured.costs = {{.tier = 2, .per_block = std::chrono::milliseconds(3)}};
  EXPECT_EQ(decode_worker_report(encode(measured).value()).value(), measured);
  for (const TierIndex tier : {TierIndex{16}, TierIndex{255}}) {
    WorkerReport wrong = measured;
    wrong.tiers[1] = tier;
    EXPECT_FALSE(decode_worker_report(encode(wrong).value()).ok()) << +tier;
    wrong = measured;
    wrong.costs[0].tier = tier;
    EXPECT_FALSE(decode_worker_report(encode(wrong).value()).ok()) << +tier;
  }
  WorkerReport slow = measured;
  slow.costs[0].per_block = std::chrono::hours(9);
  EXPECT_EQ(decode_worker_report(encode(slow).value())->costs[0].per_block, std::chrono::hours(1));
  measured.tiers.push_back(1);
  EXPECT_FALSE(decode_worker_report(encode(measured).value()).ok()) << "of two blocks";
  for (std::size_t size = 0; size < reported.size(); ++size)
    EXPECT_FALSE(decode_step_orders(ConstByteSpan(reported).first(size)).ok()) << size;
  for (std::size_t size = 0; size < said.size(); ++size)
    EXPECT_FALSE(decode_worker_report(ConstByteSpan(said).first(size)).ok()) << size;
  EXPECT_FALSE(decode_worker_report(reported).ok());
  EXPECT_FALSE(encode(WorkerReport{.worker = 64}).ok());
}

TEST_F(ConnectorSchedulerTest, hints_and_their_answers_travel) {
  const StepOrders orders{.step = 3,
                          .hints = {{.number = 7,
                                     .action = HintAction::share,
                                     .after = std::chrono::seconds(1),
                                     .keep = kLongestHint,
                                     .blocks = {1, UINT64_MAX},
                                     .session = UINT64_MAX},
                                    {.number = 8}}};
  EXPECT_FALSE(orders.empty());
  const Bytes ordered = encode(orders).value();
  EXPECT_EQ(decode_step_orders(ordered).value(), orders);
  const WorkerReport report{.worker = 1,
                            .hints = {{.number = 7,
                                       .outcome = HintOutcome::clipped,
                                       .blocks = 5,
                                       .left = 6,
                                       .why = "that is enough"}}};
  EXPECT_FALSE(report.says_nothing());
  const Bytes said = encode(report).value();
  EXPECT_EQ(decode_worker_report(said).value(), report);
  for (std::size_t size = 0; size < ordered.size(); ++size)
    EXPECT_FALSE(decode_step_orders(ConstByteSpan(ordered).first(size)).ok()) << size;
  StepOrders wrong = orders;
  wrong.hints[0].action = HintAction{0};
  EXPECT_FALSE(decode_step_orders(encode(wrong).value()).ok());
}

TEST_F(ConnectorSchedulerTest, a_hint_names_whole_blocks_and_every_worker_answers) {
  auto scheduler = make({.workers = 2});
  const auto tokens = prompt_of(18);
  ASSERT_TRUE(scheduler.match({.request = "r", .tokens = tokens}).ok());
  ASSERT_TRUE(scheduler
                  .hint("r", {.id = "mine",
                              .action = HintAction::pin,
                              .first_token = 1,
                              .end_token = 15,
                              .keep = std::chrono::seconds(1),
                              .session = "ours"})
                  .ok());
  EXPECT_EQ(scheduler.hint("nobody", {}).code(), Code::not_found);
  for (const ConnectorScheduler::Hint& wrong :
       {ConnectorScheduler::Hint{.first_token = 13}, ConnectorScheduler::Hint{.end_token = 3},
        ConnectorScheduler::Hint{.keep = Duration(-1)},
        ConnectorScheduler::Hint{.after = kLongestHint + Duration(1)}})
    EXPECT_EQ(scheduler.hint("r", wrong).code(), Code::invalid_argument);
  EXPECT_TRUE(scheduler.has_orders());
  const StepOrders orders = scheduler.build();
  ASSERT_EQ(orders.hints.size(), 1U);
  const auto hashes = hashes_of(tokens);
  EXPECT_THAT(orders.hints[0].blocks, ElementsAre(hashes[1], hashes[2]));
  EXPECT_EQ(orders.hints[0].session, session_of("ours"));
  HintAnswer answer{.number = orders.hints[0].number, .blocks = 2};
  ASSERT_TRUE(scheduler.update({.worker = 0, .hints = {answer}}).ok());
  EXPECT_TRUE(scheduler.take_answered_hints().empty());
  answer = {.number = answer.number, .outcome = HintOutcome::clipped, .blocks = 1, .left = 1};
  ASSERT_TRUE(scheduler.update({.worker = 1, .hints = {answer}}).ok());
  const auto answered = scheduler.take_answered_hints();
  ASSERT_EQ(answered.size(), 1U);
  EXPECT_EQ(answered[0].id, "mine");
  EXPECT_EQ(answered[0].action, HintAction::pin);
  EXPECT_EQ(answered[0].answer, answer) << "the least";
}

// Blocks of a prompt in tier 1, 4 ms each, for an engine that computes one in 8 ms.
class LoadingSchedulerTest : public ConnectorSchedulerTest {
 protected:
  static constexpr Duration kMs = std::chrono::milliseconds(1);

  ConnectorScheduler make_measured() {
    ConnectorScheduler scheduler = make({.background_from_tokens = 1, .clock = &clock_});
    const auto hashes = hashes_of(prompt_of(32));
    const WorkerReport report{.stored = hashes,
                              .tiers = std::vector<TierIndex>(hashes.size(), 1),
                              .costs = {{.tier = 1, .per_block = 4 * kMs}}};
    EXPECT_TRUE(scheduler.update(report).ok());
    step(scheduler, 400, 800 * kMs);
    return scheduler;
  }
  void step(ConnectorScheduler& scheduler, std::uint64_t tokens, Duration took) {
    scheduler.step_begins(tokens);
    clock_.advance(took);
    scheduler.step_ends();
  }
  void allocate(ConnectorScheduler& scheduler, const RequestId& request, std::uint64_t loaded) {
    const std::vector<std::uint64_t> blocks{0, 1, 2, 3, 4, 5, 6, 7, 8};
    ASSERT_TRUE(scheduler.allocate(request, blocks, loaded).ok());
  }

  ManualClock clock_;
};

TEST_F(LoadingSchedulerTest, what_is_loaded_sooner_than_computed_is_matched) {
  auto scheduler = make_measured();
  EXPECT_EQ(matched(scheduler, prompt_of(33)), 32U);
  ASSERT_TRUE(scheduler.update({.costs = {{.tier = 1, .per_block = 9 * kMs}}}).ok());
  EXPECT_EQ(matched(scheduler, prompt_of(33)), 0U);
  // The first two have been loaded meanwhile, by another.
  auto hashes = hashes_of(prompt_of(8));
  ASSERT_TRUE(scheduler.update({.stored = hashes}).ok());
  EXPECT_EQ(matched(scheduler, prompt_of(33)), 8U);
  allocate(scheduler, "r", 8);
  const auto figures = scheduler.figures();
  EXPECT_EQ(figures.loaded_some, 1U);
  EXPECT_EQ(figures.tokens_not_loaded, 24U);
  EXPECT_EQ(figures.computing_per_token, 2 * kMs);
}

TEST_F(LoadingSchedulerTest, what_others_load_is_waited_for_until_it_has_been_received) {
  auto scheduler = make_measured();
  EXPECT_EQ(matched(scheduler, prompt_of(33)), 32U);
  allocate(scheduler, "r", 32);
  const auto other = [&] {
    return scheduler.match({.request = "other", .tokens = prompt_of(17)})->tokens;
  };
  EXPECT_EQ(other(), 0U) << "behind 8 blocks, 48 ms for 32";
  EXPECT_EQ(scheduler.build().loads.size(), 1U);
  ASSERT_TRUE(scheduler.update({.received = {"r"}}).ok());
  EXPECT_EQ(other(), 16U);
  EXPECT_EQ(matched(scheduler, prompt_of(33)), 32U);
  allocate(scheduler, "r", 32);
  EXPECT_EQ(other(), 0U);
  ASSERT_TRUE(scheduler.finish("r").ok());
  EXPECT_EQ(other(), 16U) << "nobody loads for it any more";
}

TEST_F(LoadingSchedulerTest, steps_that_overlap_are_measured_from_the_end_of_the_one_before) {
  auto scheduler = make({.clock = &clock_});
  scheduler.step_ends();  // of none
  scheduler.step_begins(100);
  clock_.advance(10 * kMs);
  scheduler.step_begins(100);
  clock_.advance(90 * kMs);
  scheduler.step_ends();
  clock_.advance(100 * kMs);
  scheduler.step_ends();
  EXPECT_EQ(scheduler.figures().computing_per_token, kMs);
}

TEST_F(LoadingSchedulerTest, without_a_clock_all_is_matched) {
  auto scheduler = make();
  hold(scheduler, prompt_of(32));
  ASSERT_TRUE(scheduler.update({.costs = {{.tier = 0, .per_block = 900 * kMs}}}).ok());
  scheduler.step_begins(1000);
  scheduler.step_ends();
  EXPECT_EQ(matched(scheduler, prompt_of(33)), 32U);
}

}  // namespace
}  // namespace towpath::kv
