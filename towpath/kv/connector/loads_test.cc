// Loads of a connector's worker that are under way together: some slow, some without a slot.
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <towpath/blockcopy/testing/transfer_node.h>
#include <towpath/kv/connector/tiered_keeper.h>
#include <towpath/kv/connector/worker.h>
#include <towpath/kv/tiers/memory_tier_fixture.h>
#include <towpath/run/eventually.h>

namespace towpath::kv {
namespace {

using blockcopy::testing::kBlocks;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

/// Blocks 1 to 6 are in a tier that gives them when a test says so, 7 to 12 in memory, too, which
/// has no room for more.
struct LoadsTest : ::testing::Test {
  explicit LoadsTest(bool driven = false) : cache(node.build({"engine"})) {
    TieredKeeperParts parts{.clock = &node.clock, .memory = node.build({"kept"})};
    auto slow = std::make_unique<testing::MemoryTier>(1, 64);
    slow->block_directory = parts.block_directory.get();
    tier = slow.get();
    parts.below.push_back(std::move(slow));
    auto made = TieredKeeper::make(std::move(parts)).value();
    keeper = made.get();
    worker = ConnectorWorker::make(
                 {.manager = node.manager.get(), .clock = &engine_clock, .driven = driven},
                 node.add(cache), std::move(made))
                 .value();
    for (BlockHash hash = 1; hash <= 2 * kBlocks; ++hash) keep(hash);
    tier->is_slow = true;
  }
  void keep(BlockHash hash) {
    auto slot = keeper->room(1, 0).value();
    for (std::uint64_t layer = 0; layer < blockcopy::testing::kLayers; ++layer)
      std::ranges::fill(keeper->memory().bytes({slot.front().slot(), layer}).value(),
                        static_cast<std::byte>(hash));
    ASSERT_TRUE(keeper->keep(std::move(slot.front()), {.hash = hash}).ok());
    ASSERT_TRUE(keeper->sync().ok());
  }
  bool has(std::uint64_t block, BlockHash hash) {
    const ConstByteSpan bytes =
        cache.bytes({.block = block, .layer = blockcopy::testing::kLayers - 1}).value();
    return std::ranges::all_of(
        bytes, [&](std::byte byte) { return byte == static_cast<std::byte>(hash); });
  }
  void start(std::vector<RequestOrder> loads) {
    ASSERT_TRUE(worker->start_step({.loads = std::move(loads)}).ok());
    worker->wait_for_save();
  }
  /// Until as many loads as that have been received.
  std::vector<RequestId> receive(std::size_t count) {
    std::vector<RequestId> received;
    EXPECT_TRUE(run::eventually([&] {
      (void)worker->progress();
      for (const RequestId& request : worker->take_finished().received) received.push_back(request);
      return received.size() >= count;
    }));
    return received;
  }
  void let_all_go() {
    while (!tier->under_way.empty()) tier->let_go(0);
  }

  blockcopy::testing::TransferNode node{"engine"};
  ManualClock engine_clock;
  layout::PhysicalLayout cache;
  TieredKeeper* keeper = nullptr;       // the worker's
  testing::MemoryTier* tier = nullptr;  // the keeper's
  std::unique_ptr<ConnectorWorker> worker;
};

TEST_F(LoadsTest, one_that_is_slow_keeps_no_other_waiting) {
  start({{"slow", true, {{1, 0}, {12, 1}}}, {"fast", true, {{11, 2}}}});
  EXPECT_THAT(receive(1), ElementsAre("fast"));
  EXPECT_TRUE(has(2, 11));
  EXPECT_TRUE(run::eventually([&] {
    (void)worker->progress();
    return has(1, 12);
  })) << "what is in memory waits for nobody either";
  let_all_go();
  EXPECT_THAT(receive(1), ElementsAre("slow"));
  EXPECT_TRUE(has(0, 1));
  EXPECT_THAT(worker->take_failed_blocks(), IsEmpty());
}

TEST_F(LoadsTest, a_step_waits_for_its_own_while_those_in_the_background_go_on) {
  bool is_there = false;
  tier->on_progress = [&, looks = 0]() mutable {
    is_there = is_there || has(2, 11);
    if ((is_there || ++looks == 100'000) && !tier->under_way.empty()) tier->let_go(0);
  };
  start({{"step", false, {{1, 0}}}, {"background", true, {{11, 2}}}});
  for (std::uint64_t layer = 0; layer < blockcopy::testing::kLayers; ++layer)
    EXPECT_TRUE(worker->wait_for_layer_load(layer).ok());
  EXPECT_TRUE(is_there) << "before the step's block came";
  EXPECT_TRUE(has(0, 1));
}

TEST_F(LoadsTest, a_step_begins_without_waiting_and_its_first_layer_waits_for_all_its_blocks) {
  start({{"step", false, {{1, 0}, {2, 1}, {12, 2}}}});
  (void)worker->progress();
  EXPECT_EQ(tier->under_way.size(), 2U) << "the step has begun, and they are still to come";
  int progressed = 0;
  tier->on_progress = [&] {
    engine_clock.advance(std::chrono::milliseconds(1));
    if (++progressed > 3 && !tier->under_way.empty()) tier->let_go(0);
  };
  EXPECT_TRUE(worker->wait_for_layer_load(0).ok());
  EXPECT_GE(worker->figures().engine_time.wait_for_layer, std::chrono::milliseconds(5));
  EXPECT_EQ(worker->figures().engine_time.start_step, Duration(0));
  EXPECT_EQ(worker->figures().engine_time.steps, 1U);
  for (std::uint64_t layer = 0; layer < blockcopy::testing::kLayers; ++layer)
    EXPECT_TRUE(worker->wait_for_layer_load(layer).ok());
  EXPECT_TRUE(has(0, 1) && has(1, 2) && has(2, 12));
}

TEST_F(LoadsTest, who_waits_for_no_layer_gets_the_blocks_before_the_next_step) {
  start({{"step", false, {{1, 0}}}});
  tier->on_progress = [&] { let_all_go(); };
  start({});
  EXPECT_TRUE(has(0, 1));
}

TEST_F(LoadsTest, what_an_engine_takes_makes_the_tiers_do_nothing) {
  start({{"step", false, {{1, 0}}}, {"background", true, {{2, 1}}}});
  tier->on_progress = [] { ADD_FAILURE() << "on the engine's thread"; };
  for (int i = 0; i < 5; ++i) {
    (void)worker->take_finished();
    (void)worker->take_report();
  }
  tier->on_progress = [&] { let_all_go(); };
  EXPECT_TRUE(worker->wait_for_layer_load(0).ok());
}

TEST_F(LoadsTest, one_without_a_slot_waits_until_another_lets_go) {
  const BlockHash one[] = {12};
  const auto held = keeper->hold(one);
  start({{"first", true, {{1, 0}, {2, 1}, {3, 2}, {4, 3}, {5, 4}}}, {"second", true, {{6, 5}}}});
  ASSERT_TRUE(run::eventually([&] {
    (void)worker->progress();
    return tier->under_way.size() == 5;
  }));
  for (int i = 0; i < 20; ++i) (void)worker->progress();
  EXPECT_EQ(tier->under_way.size(), 5U);
  EXPECT_THAT(worker->take_failed_blocks(), IsEmpty());
  let_all_go();
  EXPECT_THAT(receive(1), ElementsAre("first"));
  ASSERT_TRUE(run::eventually([&] {
    (void)worker->progress();
    return tier->under_way.size() == 1;
  })) << "it is asked for again";
  let_all_go();
  EXPECT_THAT(receive(1), ElementsAre("second"));
  EXPECT_THAT(worker->take_failed_blocks(), IsEmpty());
  EXPECT_TRUE(has(5, 6));
}

TEST_F(LoadsTest, where_nobody_lets_go_those_without_a_slot_fail_and_the_others_do_not) {
  const BlockHash all[] = {7, 8, 9, 10, 11, 12};
  const auto held = keeper->hold(all);
  start({{"a", true, {{1, 0}, {7, 1}}}, {"b", true, {{2, 2}}}, {"c", false, {{3, 3}, {8, 4}}}});
  EXPECT_THAT(receive(2), UnorderedElementsAre("a", "b"));
  EXPECT_TRUE(worker->wait_for_layer_load(0).ok());
  EXPECT_THAT(worker->take_failed_blocks(), UnorderedElementsAre(0, 2, 3));
  EXPECT_TRUE(has(1, 7));
  EXPECT_EQ(worker->figures().last_failure.code(), Code::exhausted);
}

TEST_F(LoadsTest, what_a_step_orders_is_asked_for_when_it_begins_also_in_the_background) {
  start({{"step", false, {{1, 0}}}, {"background", true, {{2, 1}}}});
  (void)keeper->progress();
  EXPECT_EQ(tier->under_way.size(), 2U);
  tier->on_progress = [&] { let_all_go(); };
  EXPECT_TRUE(worker->wait_for_layer_load(0).ok());
}

TEST_F(LoadsTest, a_load_in_the_background_that_fails_spoils_no_step) {
  ASSERT_TRUE(
      worker
          ->start_step({.loads = {{"later", true, {{12, kBlocks}}}, {"now", false, {{11, 1}}}},
                        .saves = {{"now", false, {{99, 2}}}}})
          .ok());
  worker->wait_for_save();
  EXPECT_THAT(worker->take_failed_blocks(), ElementsAre(kBlocks)) << "the engine has no such block";
  EXPECT_TRUE(keeper->has(99));
  tier->is_slow = false;  // what is kept goes there in the end
  let_all_go();
}

TEST_F(LoadsTest, what_a_hint_brought_under_anothers_name_is_not_served_from_memory) {
  tier->is_slow = false;
  tier->blocks.at(1) = tier->blocks.at(2);  // proven by its digest, which has the other's salt
  keeper->hint({.number = 1, .action = HintAction::prefetch, .blocks = {1}});
  ASSERT_TRUE(run::eventually([&] {
    (void)keeper->progress();
    return keeper->tier_of(1) == 0;
  }));
  start({{"r", true, {{1, 0}, {2, 1}}}});
  EXPECT_THAT(receive(1), ElementsAre("r"));
  EXPECT_THAT(worker->take_failed_blocks(), ElementsAre(0));
  EXPECT_EQ(worker->figures().last_failure.code(), Code::not_found);
  EXPECT_FALSE(keeper->has(1));
  EXPECT_TRUE(has(1, 2));
}

/// The limit on the size of files of this process, for a while: writes behind it fail.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    handler_ = ::signal(SIGXFSZ, SIG_IGN);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

TEST_F(LoadsTest, what_is_computed_upon_a_block_whose_copy_failed_is_not_kept) {
  const auto on_disk = node.build({"on disk", MemoryKind::disk});
  auto parts = TieredKeeperParts{.clock = &node.clock, .memory = node.build({"kept too"})};
  auto made = TieredKeeper::make(std::move(parts)).value();
  keeper = made.get();
  worker =
      ConnectorWorker::make({.manager = node.manager.get()}, node.add(on_disk), std::move(made))
          .value();
  keep(1);
  keep(2);
  {
    const FileSizeLimit limit(4 * on_disk.config().block_bytes().value());
    ASSERT_TRUE(worker
                    ->start_step({.loads = {{"r", false, {{1, 0}, {2, 5}}}},
                                  .saves = {{"r", false, {{99, 1}}}}})
                    .ok());
    worker->wait_for_save();
  }
  EXPECT_THAT(worker->take_failed_blocks(), ::testing::Contains(5));
  EXPECT_FALSE(keeper->has(99)) << "its name would be another's";
  EXPECT_EQ(worker->figures().unsaved_blocks, 1U);
}

TEST_F(LoadsTest, a_worker_that_ends_leaves_no_task_behind) {
  start({{"slow", true, {{1, 0}, {2, 1}}}});
  (void)worker->progress();
  EXPECT_EQ(tier->under_way.size(), 2U);
  bool were_cancelled = false;
  tier->on_cancel = [&] { were_cancelled = true; };
  worker.reset();
  EXPECT_TRUE(were_cancelled);
}

/// Of an engine that saves three blocks in the background, layer by layer or not: copies that it
/// takes.
std::uint64_t copies_of_a_save(LoadsTest& it, bool by_layer) {
  it.tier->is_slow = false;
  const std::uint64_t before = it.node.manager->figures().jobs;
  EXPECT_TRUE(
      it.worker
          ->start_step({.saves = {{"r", true, {{21, 0}, {22, 1}, {23, 2}}, kUsualPriority, 0}}})
          .ok());
  if (by_layer) {
    EXPECT_TRUE(it.worker->save_layer(0).ok());
  }
  it.worker->wait_for_save();
  const std::uint64_t copies = it.node.manager->figures().jobs - before;
  it.worker->settle();
  EXPECT_EQ(it.worker->figures().saved_blocks, 0U) << "nobody waits for their digests";
  (void)it.worker->progress();
  EXPECT_EQ(it.worker->figures().saved_blocks, 3U);
  EXPECT_TRUE(it.keeper->has(21) && it.keeper->has(22) && it.keeper->has(23));
  return copies;
}

TEST_F(LoadsTest, a_save_of_all_layers_at_once_is_one_copy) {
  EXPECT_EQ(copies_of_a_save(*this, false), 1U);
}

TEST_F(LoadsTest, a_save_that_has_begun_by_layers_goes_on_so) {
  EXPECT_EQ(copies_of_a_save(*this, true), blockcopy::testing::kLayers);
}

struct DrivenLoadsTest : LoadsTest {
  DrivenLoadsTest() : LoadsTest(true) {}
};

TEST_F(DrivenLoadsTest, what_loads_in_the_background_is_proven_by_who_drives_and_not_by_the_step) {
  start({{"r", true, {{11, 0}, {12, 1}}}});
  EXPECT_EQ(keeper->figures().from_memory, 0U);
  EXPECT_EQ(node.manager->figures().jobs, 0U);
  EXPECT_FALSE(worker->is_idle()) << "the driver would sleep on";
  EXPECT_THAT(receive(1), ElementsAre("r"));
  EXPECT_TRUE(has(0, 11) && has(1, 12));
}

TEST_F(DrivenLoadsTest, what_a_step_itself_loads_begins_with_it) {
  start({{"step", false, {{11, 0}}}, {"r", true, {{12, 1}}}});
  EXPECT_EQ(keeper->figures().from_memory, 1U);
}

}  // namespace
}  // namespace towpath::kv
