#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <towpath/kv/connector/connector_fixture.h>
#include <towpath/run/eventually.h>
#include <towpath/run/mutex.h>

namespace towpath::kv {
namespace {

using blockcopy::testing::CacheKind;
using blockcopy::testing::kBlocks;
using blockcopy::testing::kLayers;
using sys::FileEffect;
using sys::FileOp;
using ::testing::ElementsAre;
using testing::Engine;
using ::testing::IsEmpty;
using testing::kEngineCache;
using testing::kTokens;
using ::testing::SizeIs;
using testing::tokens_of;
using ::testing::UnorderedElementsAre;

/// Notes which threads have it do something.
struct WatchedDevice final : sys::FileDevice {
  void begin(sys::FileRequest& request) override {
    {
      const run::MutexLock lock(mutex);
      threads.insert(::gettid());
      kinds.insert(request.kind);
    }
    request.end(sys::perform(request));
  }
  void cancel(sys::FileRequest& /*request*/) override {}
  bool progress() override { return false; }
  std::string describe() const override { return "watched"; }

  run::Mutex mutex;
  std::set<pid_t> threads TOWPATH_GUARDED_BY(mutex);
  std::set<sys::FileIo::Kind> kinds TOWPATH_GUARDED_BY(mutex);
};

void spoil_block_file(sys::MemoryFileSystem& disk, std::uint64_t offset) {
  const std::vector<std::string> names = disk.list("/kv").value();
  for (const std::string& name : names) {
    if (!name.starts_with("segment")) continue;
    auto file = disk.open("/kv/" + name, {.writable = true}).value();
    Bytes byte(1);
    ASSERT_TRUE(file->read_at(byte, offset).ok());
    byte[0] ^= std::byte{4};
    ASSERT_TRUE(file->write_at(byte, offset).ok());
  }
}

TEST(ConnectorTest, what_was_computed_comes_back_into_other_blocks) {
  Engine engine(nullptr);
  EXPECT_EQ(engine.serve("a", 7, {0, 1, 2}), 0U);
  EXPECT_THAT(engine.report.stored, SizeIs(3));
  engine.wipe();
  EXPECT_EQ(engine.serve("b", 7, {5, 3, 4}), 2 * kTokens);
  EXPECT_TRUE(engine.has(5, 7, 0));
  EXPECT_TRUE(engine.has(3, 7, 1));
  EXPECT_THAT(engine.worker->take_failed_blocks(), IsEmpty());
  EXPECT_EQ(engine.worker->figures().loaded_blocks, 2U);
  EXPECT_EQ(engine.worker->figures().saved_blocks, 3U) << "what is held is not saved again";
}

TEST(ConnectorTest, a_worker_says_once_with_which_step_it_began) {
  Engine engine(nullptr);
  EXPECT_FALSE(engine.report.first_step);
  (void)engine.scheduler->build();  // of an earlier life
  engine.serve("a", 7, {0, 1, 2});
  EXPECT_EQ(engine.report.first_step, std::optional<std::uint64_t>(1));
  engine.serve("b", 7, {5, 3, 4});
  EXPECT_FALSE(engine.report.first_step);
}

TEST(ConnectorTest, what_is_saved_with_more_priority_goes_to_disk_first) {
  sys::MemoryFileSystem disk;
  Engine engine(&disk, {}, kEngineCache, {.batch_blocks = 1});
  engine.begin("late", 7, {0}, 10);
  engine.begin("soon", 8, {1}, 90);
  const Bytes orders = encode(engine.scheduler->build()).value();
  ASSERT_TRUE(engine.worker->start_step(decode_step_orders(orders).value()).ok());
  engine.worker->wait_for_save();
  (void)engine.block_directory->take_events();
  ASSERT_TRUE(engine.worker->sync().ok());
  std::vector<BlockHash> to_disk;
  for (const BlockEvent& event : engine.block_directory->take_events().events)
    if (event.tier == 1) to_disk.push_back(event.hash);
  EXPECT_THAT(to_disk, ElementsAre(Engine::first_hash(8), Engine::first_hash(7)));
}

/// Block 8 of these has priority enough for a file, 7 not.
constexpr kv::TieredCacheOptions kPicky{.admission = {.min_priority = 60}};

void save_seven_and_eight(Engine& engine) {
  engine.begin("usual", 7, {0});
  engine.begin("preferred", 8, {1}, 60);
  engine.step();
  ASSERT_TRUE(engine.worker->sync().ok());
}

TEST(ConnectorTest, what_is_saved_with_too_little_priority_stays_in_memory) {
  sys::MemoryFileSystem disk;
  Engine engine(&disk, {}, kEngineCache, kPicky);
  save_seven_and_eight(engine);
  EXPECT_TRUE(engine.is_on_disk(8));
  EXPECT_FALSE(engine.is_on_disk(7));
  EXPECT_THAT(engine.report.stored, SizeIs(2)) << "both can be loaded";
}

TEST(ConnectorTest, what_is_synced_to_files_is_reported_as_lasting_and_not_before) {
  sys::MemoryFileSystem disk;
  Engine engine(&disk, {}, kEngineCache, kPicky);
  save_seven_and_eight(engine);
  const WorkerReport report = engine.worker->take_report();
  EXPECT_THAT(report.lasting, ElementsAre(Engine::first_hash(8)));
  EXPECT_FALSE(engine.keeper->outlives_this(Engine::first_hash(7)));
}

TEST(ConnectorTest, the_engines_cache_may_lie_in_a_device) {
  Engine engine(nullptr, {}, {"device", MemoryKind::device});
  blockcopy::testing::TransferNode& node = engine.node;
  const blockcopy::LayoutHandle filled = node.add_filled(3);
  node.copy(filled, engine.handle, {{0, 0, 2}});
  const auto tokens = tokens_of(9);
  ASSERT_TRUE(engine.scheduler->match({.request = "a", .tokens = tokens}).ok());
  ASSERT_TRUE(engine.scheduler->allocate("a", std::vector<std::uint64_t>{0, 1, 2}, 0).ok());
  ASSERT_TRUE(engine.scheduler->advance("a", {.computed_before = 0, .computed_after = 8}).ok());
  engine.step();
  EXPECT_EQ(engine.scheduler->match({.request = "b", .tokens = tokens})->tokens, 8U);
  ASSERT_TRUE(engine.scheduler->allocate("b", std::vector<std::uint64_t>{4, 5, 3}, 8).ok());
  engine.step();
  node.expect_block(engine.handle, 4, 3, 0);
  node.expect_block(engine.handle, 5, 3, 1);
}

TEST(ConnectorTest, after_a_restart_blocks_come_from_the_files) {
  sys::MemoryFileSystem disk;
  { EXPECT_EQ(Engine(&disk).serve("a", 7, {0, 1, 2}), 0U); }
  disk.crash();
  Engine engine(&disk);
  EXPECT_EQ(engine.serve("b", 7, {5, 3, 4}), 2 * kTokens);
  EXPECT_TRUE(engine.has(5, 7, 0));
  EXPECT_TRUE(engine.has(3, 7, 1));
  EXPECT_EQ(engine.keeper->figures().from_below["disk"], 2U);
}

TEST(ConnectorTest, a_flipped_bit_in_a_file_fails_exactly_that_block) {
  sys::MemoryFileSystem disk;
  { EXPECT_EQ(Engine(&disk).serve("a", 7, {0, 1, 2}), 0U); }
  // Behind the segment's header and the first record's: the first block.
  spoil_block_file(disk, 2 * 4096 + 100);
  Engine engine(&disk);
  EXPECT_EQ(engine.serve("b", 7, {5, 3, 4}), 2 * kTokens);
  EXPECT_THAT(engine.report.failed_blocks, ElementsAre(5));
  EXPECT_THAT(engine.worker->take_failed_blocks(), ElementsAre(5));
  EXPECT_THAT(engine.worker->take_failed_blocks(), IsEmpty()) << "told once";
  EXPECT_FALSE(engine.has(5, 7, 0));
  EXPECT_TRUE(engine.has(3, 7, 1));
  EXPECT_EQ(engine.keeper->figures().quarantined.at("disk, coming up"), 1U);
  EXPECT_EQ(engine.serve("c", 7, {0, 1, 2}), 0U) << "it is matched no more";
  EXPECT_EQ(engine.serve("d", 7, {0, 1, 2}), 2 * kTokens) << "and was saved anew";
}

TEST(ConnectorTest, what_is_computed_upon_a_block_that_failed_is_not_kept) {
  sys::MemoryFileSystem disk;
  { EXPECT_EQ(Engine(&disk).serve("a", 7, {0, 1}), 0U); }
  spoil_block_file(disk, 2 * 4096 + 100);
  Engine engine(&disk);
  EXPECT_EQ(engine.serve("b", 7, {5, 3, 4}), 2 * kTokens);
  EXPECT_THAT(engine.report.failed_blocks, ElementsAre(5));
  const auto hashes = sequence_hashes({}, tokens_of(12, 7), kTokens).value();
  EXPECT_FALSE(engine.scheduler->holds(hashes[2])) << "its name would be another's";
  EXPECT_FALSE(engine.keeper->has(hashes[2]));
  EXPECT_EQ(engine.worker->figures().unsaved_blocks, 1U);
  EXPECT_EQ(engine.serve("c", 7, {0, 1, 2}), 0U);
  EXPECT_TRUE(engine.scheduler->holds(hashes[2])) << "computed again, it is";
}

TEST(ConnectorTest, who_asks_without_progress_makes_none) {
  sys::MemoryFileSystem disk;
  Engine engine(&disk);
  engine.begin("a", 7, {0, 1, 2});
  EXPECT_TRUE(engine.scheduler->has_orders());
  ASSERT_TRUE(engine.worker->start_step(engine.scheduler->build()).ok());
  EXPECT_FALSE(engine.scheduler->has_orders());
  engine.worker->wait_for_save();
  const WorkerReport report = engine.worker->report_so_far();
  EXPECT_THAT(report.stored, SizeIs(3));
  EXPECT_FALSE(report.says_nothing());
  EXPECT_TRUE(engine.worker->report_so_far().says_nothing());
  EXPECT_EQ(engine.keeper->figures().written, 0U);
  while (engine.worker->progress()) {
  }
  EXPECT_TRUE(engine.worker->sync().ok());
  EXPECT_GT(engine.keeper->figures().written, 0U);
}

// A report has a bound, and a large disk has more blocks.
TEST(ConnectorTest, what_was_there_from_the_start_is_reported_in_parts) {
  sys::MemoryFileSystem disk;
  { Engine(&disk).serve("a", 7, {0, 1, 2}); }
  Engine engine(nullptr);
  const auto keeper = TieredKeeper::make(engine.parts_of(&disk)).value();
  std::set<BlockHash> reported;
  for (const std::size_t blocks : {2U, 1U}) {
    ASSERT_TRUE(keeper->has_news());
    const TieredKeeper::News news = keeper->take_news(2);
    EXPECT_EQ(news.is_anew, blocks == 2) << "the second report does not make the first void";
    EXPECT_EQ(news.more_follows, blocks == 2);
    EXPECT_FALSE(news.goes_on);
    EXPECT_THAT(news.stored, SizeIs(blocks));
    reported.insert(news.stored.begin(), news.stored.end());
  }
  EXPECT_THAT(reported, SizeIs(3));
  EXPECT_FALSE(keeper->has_news());
}

// Twice as many changes as are kept between two reports.
TEST(ConnectorTest, a_hint_stays_open_when_more_has_changed_than_is_kept) {
  Engine engine(nullptr);
  engine.begin("a", 7, {0, 1, 2});
  ASSERT_TRUE(engine.scheduler->hint("a", {.id = "mine", .after = std::chrono::hours(1)}).ok());
  engine.step();
  EXPECT_THAT(engine.report.stored, SizeIs(3));
  for (BlockHash hash = 1; hash <= 70'000; ++hash) {
    EXPECT_TRUE(engine.block_directory->add(hash, 1));
    EXPECT_TRUE(engine.block_directory->remove(hash, 1));
  }
  engine.step();
  EXPECT_TRUE(engine.report.is_first);
  EXPECT_TRUE(engine.report.goes_on);
  EXPECT_FALSE(engine.report.more_follows);
  EXPECT_THAT(engine.scheduler->take_answered_hints(), IsEmpty());
  EXPECT_THAT(engine.report.stored, SizeIs(3));
  EXPECT_TRUE(engine.scheduler->holds(Engine::first_hash(7)));
}

// The same, and what was saved between the two has made room.
TEST(ConnectorTest, a_save_is_answered_when_more_has_changed_than_is_kept) {
  Engine engine(nullptr);
  engine.begin("a", 7, {0, 1, 2});
  ASSERT_TRUE(engine.worker->start_step(engine.scheduler->build()).ok());
  engine.worker->wait_for_save();
  const auto hashes = sequence_hashes({}, tokens_of(12, 7), kTokens).value();
  for (const BlockHash hash : hashes) EXPECT_TRUE(engine.block_directory->remove(hash, 0));
  for (BlockHash hash = 1; hash <= 70'000; ++hash) {
    EXPECT_TRUE(engine.block_directory->add(hash, 1));
    EXPECT_TRUE(engine.block_directory->remove(hash, 1));
  }
  const WorkerReport report = engine.worker->take_report();
  EXPECT_TRUE(report.goes_on);
  EXPECT_THAT(report.stored, IsEmpty());
  EXPECT_THAT(report.lost, ::testing::UnorderedElementsAreArray(hashes));
  ASSERT_TRUE(engine.scheduler->update(report).ok());
  engine.begin("b", 7, {3, 4, 5});
  EXPECT_THAT(engine.scheduler->build().saves, SizeIs(1)) << "they may be saved again";
}

TEST(ConnectorTest, a_part_of_many_blocks_may_change_between_two_reports) {
  constexpr BlockHash kMany = 700'000, kChanged = 70'000;
  Engine engine(nullptr);
  for (BlockHash hash = 1; hash <= kMany; ++hash) engine.block_directory->add(hash, 1);
  EXPECT_TRUE(engine.keeper->take_news().is_anew);
  for (BlockHash hash = 1; hash <= kChanged; ++hash) engine.block_directory->remove(hash, 1);
  const TieredKeeper::News news = engine.keeper->take_news();
  EXPECT_FALSE(news.is_anew) << "an eighth may";
  EXPECT_THAT(news.lost, SizeIs(kChanged));
  for (BlockHash hash = kChanged + 1; hash <= kMany; ++hash)
    engine.block_directory->remove(hash, 1);
  EXPECT_TRUE(engine.keeper->take_news().is_anew) << "all may not";
}

TEST(ConnectorTest, memory_that_changed_is_a_failed_block_or_comes_from_the_file) {
  sys::MemoryFileSystem disk;
  for (sys::MemoryFileSystem* files : {static_cast<sys::MemoryFileSystem*>(nullptr), &disk}) {
    Engine engine(files);
    engine.serve("a", 7, {0, 1, 2});
    ASSERT_TRUE(engine.worker->sync().ok());
    engine.wipe();
    for (std::uint64_t slot = 0; slot < kBlocks; ++slot) {
      const auto block = engine.keeper->memory().bytes({.block = slot, .layer = 1, .outer = 1});
      block->front() ^= std::byte{1};
    }
    engine.serve("b", 7, {5, 3, 4});
    EXPECT_THAT(engine.worker->take_failed_blocks(), SizeIs(files == nullptr ? 2 : 0));
    EXPECT_EQ(engine.has(5, 7, 0), files != nullptr);
    EXPECT_EQ(engine.keeper->figures().quarantined.at("host, held"), 2U);
  }
}

TEST(ConnectorTest, what_the_engine_does_not_have_fails_alone) {
  Engine engine(nullptr);
  engine.serve("a", 7, {0, 1, 2});
  engine.wipe();
  const auto hashes = sequence_hashes({}, tokens_of(12, 7), kTokens).value();
  const StepOrders orders{
      .loads = {{"b", false, {{hashes[0], 99}, {hashes[1], 4}, {hashes[1] + 1, 5}}}}};
  ASSERT_TRUE(engine.worker->start_step(orders).ok());
  for (std::uint64_t layer = 0; layer < kLayers; ++layer)
    ASSERT_TRUE(engine.worker->wait_for_layer_load(layer).ok());
  EXPECT_EQ(engine.worker->wait_for_layer_load(kLayers).code(), Code::out_of_range);
  EXPECT_EQ(engine.worker->save_layer(kLayers).code(), Code::out_of_range);
  EXPECT_THAT(engine.worker->take_failed_blocks(), UnorderedElementsAre(99, 5));
  EXPECT_TRUE(engine.has(4, 7, 1));
}

TEST(ConnectorTest, memory_gives_way_and_files_keep_what_was_in_it) {
  sys::MemoryFileSystem disk;
  Engine engine(&disk);
  for (std::uint32_t seed : {10U, 20U, 30U, 40U}) {
    engine.serve(cat("r", seed), seed, {0, 1, 2});
    EXPECT_TRUE(engine.scheduler->finish(cat("r", seed)).ok());
  }
  engine.wipe();
  EXPECT_EQ(engine.serve("again", 10, {3, 4, 5}), 2 * kTokens);
  EXPECT_TRUE(engine.has(3, 10, 0));
  EXPECT_TRUE(engine.has(4, 10, 1));
  EXPECT_GE(engine.keeper->figures().from_below["disk"], 2U);

  Engine small(nullptr);
  for (std::uint32_t seed : {10U, 20U, 30U}) small.serve(cat("r", seed), seed, {0, 1, 2});
  EXPECT_EQ(small.serve("again", 10, {3, 4, 5}), 0U) << "without files it is lost, and told";
}

TEST(ConnectorTest, a_policy_hears_which_block_stands_on_which) {
  Engine engine(nullptr, {}, kEngineCache, {.policy = PolicyKind::lineage});
  engine.serve("a", 10, {0, 1, 2});
  engine.serve("b", 20, {0, 1, 2});
  engine.serve("c", 30, {3});  // one of six must go: the end of a prompt, not its beginning
  engine.wipe();
  EXPECT_EQ(engine.serve("again", 10, {3, 4, 5}), 2 * kTokens);
  EXPECT_TRUE(engine.has(3, 10, 0) && engine.has(4, 10, 1));
}

TEST(ConnectorTest, a_full_disk_costs_no_block_that_memory_has) {
  sys::MemoryFileSystem disk;
  Engine engine(&disk);
  disk.inject({.on = FileOp::write, .times = 1000, .effect = FileEffect::fail, .errno_value = 28});
  engine.serve("a", 7, {0, 1, 2});
  EXPECT_EQ(engine.serve("b", 7, {5, 3, 4}), 2 * kTokens);
  EXPECT_TRUE(engine.has(5, 7, 0));
  EXPECT_EQ(engine.worker->sync().code(), Code::exhausted) << "nothing is said to be there";
  EXPECT_GE(engine.keeper->figures().not_written, 1U);
  EXPECT_EQ(engine.keeper->figures().last_failure.code(), Code::exhausted);
}

TEST(ConnectorTest, a_load_in_the_background_is_received_once) {
  sys::MemoryFileSystem disk;
  { EXPECT_EQ(Engine(&disk).serve("a", 7, {0, 1, 2}), 0U); }
  spoil_block_file(disk, 2 * 4096 + 100);
  Engine engine(&disk, {.background_from_tokens = 1});
  const auto tokens = tokens_of(12, 7);
  EXPECT_TRUE(engine.scheduler->match({.request = "b", .tokens = tokens})->in_background);
  ASSERT_TRUE(engine.scheduler->allocate("b", std::vector<std::uint64_t>{5, 3, 4}, 8).ok());
  ASSERT_TRUE(engine.worker->start_step(engine.scheduler->build()).ok());
  engine.worker->wait_for_save();
  std::vector<RequestId> received;
  for (int i = 0; i < 10'000 && received.empty(); ++i) {
    (void)engine.worker->progress();
    received = engine.worker->take_finished().received;
  }
  EXPECT_THAT(received, ElementsAre("b"));
  EXPECT_THAT(engine.worker->take_finished().received, IsEmpty());
  EXPECT_THAT(engine.worker->take_failed_blocks(), ElementsAre(5));
  EXPECT_TRUE(engine.has(3, 7, 1));
  const WorkerReport report = engine.worker->take_report();
  EXPECT_THAT(report.received, ElementsAre("b"));
  EXPECT_THAT(report.lost, SizeIs(1));
}

TEST(ConnectorTest, what_a_load_took_and_where_blocks_are_is_reported) {
  sys::MemoryFileSystem disk;
  { EXPECT_EQ(Engine(&disk).serve("a", 7, {0, 1, 2}), 0U); }
  Engine engine(&disk);
  EXPECT_EQ(engine.report.costs.size(), 0U) << "nothing was loaded";
  engine.serve("b", 7, {5, 3, 4});
  std::vector<TierIndex> tiers;
  for (const TierCost& cost : engine.report.costs) {
    tiers.push_back(cost.tier);
    EXPECT_GT(cost.per_block, Duration{0});
  }
  EXPECT_THAT(tiers, ::testing::UnorderedElementsAre(0, 1)) << "out of memory, and off the disk";
  EXPECT_TRUE(engine.report.tiers.empty()) << "all that it speaks of is in memory now";
  engine.serve("c", 100, {0, 1, 2});
  engine.serve("d", 200, {0, 1, 2});
  engine.serve("e", 300, {0, 1, 2});
  EXPECT_THAT(engine.report.tiers, ::testing::Contains(1)) << "some had to make room";
}

TEST(ConnectorTest, with_a_thread_the_engine_s_own_never_reads_writes_or_syncs) {
  sys::MemoryFileSystem disk;
  auto watched = std::make_unique<WatchedDevice>();
  WatchedDevice* const device = watched.get();
  Engine engine(&disk, {}, kEngineCache, {}, std::move(watched));
  for (std::uint32_t seed = 1; seed <= 4; ++seed) {
    EXPECT_EQ(engine.serve(cat("new ", seed), 100 * seed, {0, 1, 2}), 0U);
    ASSERT_TRUE(run::eventually([&] {
      (void)engine.worker->take_finished();
      return engine.keeper->figures().written == 3 * seed;
    }));
  }
  EXPECT_TRUE(engine.scheduler->update(engine.worker->take_report()).ok());
  EXPECT_EQ(engine.serve("again", 100, {5, 3, 4}), 2 * kTokens) << "memory has not room for all";
  EXPECT_TRUE(engine.has(5, 100, 0));
  EXPECT_TRUE(engine.has(3, 100, 1));
  EXPECT_EQ(engine.keeper->figures().from_below.at("disk"), 2U);
  const run::MutexLock lock(device->mutex);
  EXPECT_THAT(device->kinds, SizeIs(3)) << "reads, writes and syncs";
  EXPECT_THAT(device->threads, SizeIs(1));
  EXPECT_FALSE(device->threads.contains(::gettid()));
}

TEST(ConnectorTest, a_save_in_the_background_is_sent_when_it_reads_no_more) {
  Engine engine(nullptr, {.saves_in_background = true});
  engine.serve("a", 7, {0, 1, 2});
  EXPECT_TRUE(engine.scheduler->finish("a")->blocks_stay);
  ASSERT_TRUE(engine.worker->start_step(engine.scheduler->build()).ok());
  engine.worker->wait_for_save();
  engine.worker->settle();
  const std::vector<RequestId> sent = engine.worker->finished_so_far().sent;
  EXPECT_THAT(sent, ElementsAre("a"));
  engine.wipe();
  ASSERT_TRUE(engine.scheduler->update(engine.worker->take_report()).ok());
  EXPECT_EQ(engine.serve("b", 7, {5, 3, 4}), 2 * kTokens);
  EXPECT_TRUE(engine.has(5, 7, 0));
}

TEST(ConnectorTest, what_is_being_saved_is_settled_before_its_blocks_are_others) {
  Engine engine(nullptr, {.saves_in_background = true});
  engine.serve("a", 7, {0, 1, 2});
  ASSERT_TRUE(engine.scheduler->preempt("a").ok());
  ASSERT_TRUE(engine.worker->start_step(engine.scheduler->build()).ok());
  engine.wipe();
  engine.worker->wait_for_save();
  ASSERT_TRUE(engine.scheduler->update(engine.worker->take_report()).ok());
  EXPECT_EQ(engine.serve("b", 7, {5, 3, 4}), 2 * kTokens);
  EXPECT_TRUE(engine.has(5, 7, 0));
  EXPECT_TRUE(engine.has(3, 7, 1));
}

TEST(ConnectorTest, a_worker_that_ends_in_the_middle_of_a_step_leaves_nothing_behind) {
  Engine engine(nullptr, {.background_from_tokens = 1});
  engine.serve("a", 7, {0, 1, 2});
  const auto tokens = tokens_of(12, 7);
  ASSERT_TRUE(engine.scheduler->match({.request = "b", .tokens = tokens}).ok());
  ASSERT_TRUE(engine.scheduler->allocate("b", std::vector<std::uint64_t>{5, 3, 4}, 8).ok());
  ASSERT_TRUE(engine.worker->start_step(engine.scheduler->build()).ok());
  (void)engine.worker->progress();
  EXPECT_GT(engine.node.manager->figures().chunks_under_way, 0U);
  engine.worker.reset();
  EXPECT_EQ(engine.node.manager->figures().chunks_under_way, 0U);
}

}  // namespace
}  // namespace towpath::kv
