#include <algorithm>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <towpath/blockcopy/testing/transfer_node.h>
#include <towpath/core/format.h>
#include <towpath/device/testing/watched_device.h>
#include <towpath/run/eventually.h>

namespace towpath::blockcopy {
namespace {

using testing::CacheKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kBlocks;
using testing::kLayers;
using testing::TransferNode;

constexpr CacheKind kCacheKinds[] = {
    {"host nhd"},
    {"host hnd layers", MemoryKind::system, layout::LayoutKind::layer_separate_block_second,
     layout::BlockFormat::hnd},
    {"host universal", MemoryKind::system, layout::LayoutKind::fully_contiguous,
     layout::BlockFormat::universal},
    {"device nhd", MemoryKind::device},
    {"device hnd layers", MemoryKind::device, layout::LayoutKind::layer_separate_block_first,
     layout::BlockFormat::hnd},
    {"disk nhd", MemoryKind::disk},
    {"disk universal", MemoryKind::disk, layout::LayoutKind::fully_contiguous,
     layout::BlockFormat::universal},
    {"disk block by block", MemoryKind::disk, layout::LayoutKind::block_separate},
};

/// What is copied, and what must not be: 0, 3 and 4 go to 5, 1 and 2.
const std::vector<layout::BlockRange> kScattered = {{0, 5, 1}, {3, 1, 2}};
constexpr std::uint32_t kOld = 7000, kNew = 9000;

void check_pair(TransferNode& node, const CacheKind& from, const CacheKind& to) {
  SCOPED_TRACE(cat(from.name, " to ", to.name));
  const LayoutHandle source = node.add(from);
  const LayoutHandle target = node.add(to);
  node.copy(node.add_filled(kNew), source, {{0, 0, kBlocks}});
  node.copy(node.add_filled(kOld), target, {{0, 0, kBlocks}});
  node.copy(source, target, kScattered);
  for (const std::uint64_t untouched : {0u, 3u, 4u})
    node.expect_block(target, untouched, kOld, untouched);
  node.expect_block(target, 5, kNew, 0);
  node.expect_block(target, 1, kNew, 3);
  node.expect_block(target, 2, kNew, 4);
}

TEST(TransferManagerTest, every_kind_of_cache_goes_to_every_other) {
  TransferNode node("node", {.bounce = {.slot_bytes = 4096, .slots = 2}});
  for (const CacheKind& from : kCacheKinds)
    for (const CacheKind& to : kCacheKinds) {
      check_pair(node, from, to);
      if (HasFailure()) return;
    }
  EXPECT_EQ(node.manager->figures().jobs, 0u);
  EXPECT_EQ(node.manager->figures().bounce_slots_in_use, 0u);
}

// The pairs above hold that the bytes are right; this, that it is the kernel that moves them.
TEST(TransferManagerTest, short_pieces_of_devices_are_moved_by_their_kernel) {
  TransferNode node("node");
  const CacheKind pinned{"pinned universal", MemoryKind::pinned,
                         layout::LayoutKind::fully_contiguous, layout::BlockFormat::universal};
  const auto route = [&](const CacheKind& from, const CacheKind& to) {
    return node.manager
        ->copy({.source = node.add(from), .target = node.add(to), .blocks = {{0, 0, kBlocks}}})
        ->route();
  };
  EXPECT_EQ(route(kCacheKinds[3], kCacheKinds[4]).first, Mover::kernel);
  EXPECT_EQ(route(kCacheKinds[3], pinned).first, Mover::kernel);
  EXPECT_EQ(route(pinned, kCacheKinds[4]).first, Mover::kernel);
  EXPECT_EQ(route(kCacheKinds[3], kCacheKinds[6]).first, Mover::kernel) << "to a bounce buffer";
  EXPECT_EQ(route(kCacheKinds[6], kCacheKinds[3]).second, Mover::kernel);
  EXPECT_EQ(route(kCacheKinds[3], kCacheKinds[3]).first, Mover::engine) << "one long piece";
  EXPECT_NE(route(kCacheKinds[3], kCacheKinds[1]).first, Mover::kernel) << "not pinned";
  check_pair(node, kCacheKinds[3], pinned);
  check_pair(node, pinned, kCacheKinds[4]);
}

TEST(TransferManagerTest, kernel_and_copy_engines_are_tried_and_the_faster_is_taken) {
  ManualClock clock;
  // Pieces of these caches are 32 bytes and more: near this bound.
  TransferNode node("node", {.clock = &clock, .short_piece_bytes = 64, .path_trials = 1});
  const LayoutHandle source = node.add(kCacheKinds[3]);
  const LayoutHandle target = node.add(kCacheKinds[4]);
  const auto copy = [&](Duration by_kernel, Duration by_engine) {
    auto job = node.manager->copy({.source = source, .target = target, .blocks = {{0, 0, 2}}});
    EXPECT_TRUE(job.ok()) << job.status().to_string();
    const Mover mover = job->route().first;
    node.manager->progress();  // it begins
    clock.advance(mover == Mover::kernel ? by_kernel : by_engine);
    EXPECT_EQ(job->wait(), Outcome::done) << job->status().to_string();
    return mover;
  };
  using std::chrono::milliseconds;
  EXPECT_EQ(copy(milliseconds(2), milliseconds(1)), Mover::kernel);
  EXPECT_EQ(copy(milliseconds(2), milliseconds(1)), Mover::engine);
  EXPECT_EQ(copy(milliseconds(2), milliseconds(1)), Mover::engine);
  EXPECT_EQ(copy(milliseconds(2), milliseconds(9)), Mover::engine) << "what was chosen stays";
}

TEST(TransferManagerTest, a_copy_may_take_blocks_for_another_format_than_their_layouts) {
  TransferNode node("node");
  const CacheKind hnd_kind{"hnd", MemoryKind::system, layout::LayoutKind::fully_contiguous,
                           layout::BlockFormat::hnd};
  const auto copied = [&](const CopyRequest& request) {
    auto job = node.manager->copy(request);
    ASSERT_TRUE(job.ok()) << job.status().to_string();
    ASSERT_EQ(job->wait(), Outcome::done) << job->status().to_string();
  };
  // An engine writes hnd into a cache that says nhd, and reads it from there again.
  const auto engines = node.build({"says nhd"});
  const LayoutHandle filled = node.add_filled(kNew);
  const LayoutHandle says_nhd = node.add(engines);
  copied({.source = filled,
          .target = says_nhd,
          .blocks = {{0, 0, kBlocks}},
          .target_format = layout::BlockFormat::hnd});
  const auto hnd = node.build(hnd_kind);
  node.copy(filled, node.add(hnd), {{0, 0, kBlocks}});
  EXPECT_TRUE(std::ranges::equal(engines.regions()[0]->bytes(), hnd.regions()[0]->bytes()));
  const auto back = node.build({"back"});
  copied({.source = says_nhd,
          .target = node.add(back),
          .blocks = {{0, 0, kBlocks}},
          .source_format = layout::BlockFormat::hnd});
  for (std::uint64_t block = 0; block < kBlocks; ++block)
    TransferNode::expect_numbers(back, block, kNew);
  const auto refused = node.manager->copy({.source = filled,
                                           .target = node.add(kCacheKinds[1]),
                                           .blocks = {{0, 0, 1}},
                                           .target_format = layout::BlockFormat::universal});
  EXPECT_THAT(refused.status().to_string(), HasSubstr("universal_needs_all_layers"));
}

TEST(TransferManagerTest, what_is_permuted_in_host_memory_is_right_by_definition) {
  TransferNode node("node");
  const auto hnd = node.build(kCacheKinds[1]);
  node.copy(node.add_filled(kNew), node.add(hnd), {{0, 0, kBlocks}});
  for (std::uint64_t block = 0; block < kBlocks; ++block)
    TransferNode::expect_numbers(hnd, block, kNew);
}

TEST(TransferManagerTest, layers_end_one_by_one_and_are_reported) {
  TransferNode node("node");
  const LayoutHandle disk = node.add(kCacheKinds[5]);
  node.copy(node.add_filled(kNew), disk, {{0, 0, kBlocks}});
  const auto device = node.add(kCacheKinds[3]);
  std::vector<std::uint64_t> reported;
  auto job =
      node.manager->copy({.source = disk,
                          .target = device,
                          .blocks = {{0, 0, kBlocks}},
                          .layer_by_layer = true,
                          .on_layer = [&](std::uint64_t layer) { reported.push_back(layer); }});
  ASSERT_TRUE(job.ok()) << job.status().to_string();
  EXPECT_FALSE(job->is_layer_done(0));
  EXPECT_TRUE(job->wait_for_layer(0, std::chrono::seconds(20)));
  EXPECT_EQ(job->wait(std::chrono::seconds(20)), Outcome::done) << job->status().to_string();
  std::ranges::sort(reported);
  EXPECT_THAT(reported, ElementsAre(0, 1, 2));
  EXPECT_TRUE(job->is_layer_done(2));
  EXPECT_FALSE(job->is_layer_done(3));
  EXPECT_EQ(job->chunks(), kLayers);
  node.expect_block(device, 4, kNew, 4);
}

TEST(TransferManagerTest, blocks_are_reported_as_they_come_whole_and_few_at_a_time) {
  TransferNode node("node");
  const LayoutHandle disk = node.add(kCacheKinds[5]);
  node.copy(node.add_filled(kNew), disk, {{0, 0, kBlocks}});
  const auto before = node.manager->figures();
  ASSERT_EQ(before.most_chunks_under_way, 1u);
  const auto target = node.build({"target"});
  std::vector<std::uint64_t> reported;
  auto job = node.manager->copy({.source = disk,
                                 .target = node.add(target),
                                 .blocks = {{0, 0, kBlocks}},
                                 .chunk_bytes = 1,
                                 .most_chunks = 2,
                                 .on_blocks = [&](const layout::BlockRange& blocks) {
                                   ASSERT_EQ(blocks.count, 1u);
                                   TransferNode::expect_numbers(target, blocks.target_first, kNew);
                                   reported.push_back(blocks.target_first);
                                 }});
  ASSERT_TRUE(job.ok()) << job.status().to_string();
  EXPECT_EQ(job->wait(std::chrono::seconds(20)), Outcome::done) << job->status().to_string();
  EXPECT_THAT(reported, ::testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(node.manager->figures().most_chunks_under_way, 2u);
}

TEST(TransferManagerTest, a_range_of_layers_leaves_the_others) {
  TransferNode node("node");
  const auto target = node.build({"target"});
  const LayoutHandle handle = node.add(target);
  node.copy(node.add_filled(kOld), handle, {{0, 0, kBlocks}});
  auto job = node.manager->copy(
      {.source = node.add_filled(kNew), .target = handle, .blocks = {{2, 2, 1}}, .layers = {1, 1}});
  ASSERT_TRUE(job.ok()) << job.status().to_string();
  ASSERT_EQ(job->wait(), Outcome::done);
  testing::for_each_element(target, 2, 0, [&](const auto& at, const std::byte* place) {
    std::uint32_t number = 0;
    std::memcpy(&number, place, sizeof number);
    ASSERT_EQ(number, testing::number_of(at[1] == 1 ? kNew : kOld, at));
  });
  EXPECT_EQ(job->bytes_in_place(), 2u * 4 * 16 * 4);
}

TEST(TransferManagerTest, credits_and_slots_bound_what_is_under_way) {
  // A slot holds one layer of one block, so there are 18 chunks, of two copies at once.
  TransferNode node("node", {.bounce = {.slot_bytes = 512, .slots = 3}, .credits = 4});
  const LayoutHandle disk = node.add(kCacheKinds[5]);
  const LayoutHandle filled = node.add_filled(kNew);
  node.copy(filled, disk, {{0, 0, kBlocks}});
  const LayoutHandle first = node.add(kCacheKinds[3]);
  const LayoutHandle second = node.add(kCacheKinds[4]);
  auto one = node.manager->copy(
      {.source = disk, .target = first, .blocks = {{0, 0, kBlocks}}, .layer_by_layer = true});
  auto other = node.manager->copy(
      {.source = disk, .target = second, .blocks = {{0, 0, kBlocks}}, .layer_by_layer = true});
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(one->wait(std::chrono::seconds(20)), Outcome::done) << one->status().to_string();
  EXPECT_EQ(other->wait(std::chrono::seconds(20)), Outcome::done) << other->status().to_string();
  const TransferFigures figures = node.manager->figures();
  EXPECT_LE(figures.most_chunks_under_way, 4u);
  EXPECT_GE(figures.most_chunks_under_way, 2u);
  EXPECT_LE(figures.most_bounce_slots_in_use, 3u);
  EXPECT_EQ(figures.bounce_slots_in_use, 0u);
  node.expect_block(first, 3, kNew, 3);
  node.expect_block(second, 3, kNew, 3);
}

TEST(TransferManagerTest, whole_blocks_that_lie_alike_are_one_chunk) {
  TransferNode node("node");
  auto job = node.manager->copy({.source = node.add_filled(kNew),
                                 .target = node.add({"target"}),
                                 .blocks = {{0, 0, kBlocks}}});
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->wait(), Outcome::done);
  EXPECT_EQ(job->chunks(), 1u);
  EXPECT_EQ(job->bytes_in_place(), kBlocks * kLayers * 2 * 4 * 16 * 4);
}

TEST(TransferManagerTest, nothing_to_copy_is_done) {
  TransferNode node("node");
  auto job = node.manager->copy({.source = node.add_filled(kNew), .target = node.add({"target"})});
  ASSERT_TRUE(job.ok()) << job.status().to_string();
  EXPECT_EQ(job->wait(), Outcome::done);
}

TEST(TransferManagerTest, what_makes_no_sense_is_refused_before_a_byte_moves) {
  TransferNode node("node", {.bounce = {.slot_bytes = 1, .slots = 2}});
  const LayoutHandle filled = node.add_filled(kNew);
  const LayoutHandle target = node.add({"target"});
  const auto refused = [&](CopyRequest request) {
    return node.manager->copy(std::move(request)).status().to_string();
  };
  EXPECT_THAT(refused({.source = {1, 2}, .target = target}), HasSubstr("no layout is known"));
  EXPECT_THAT(refused({.source = filled, .target = target, .blocks = {{0, 6, 1}}}),
              HasSubstr("Block ID 6 out of range"));
  EXPECT_THAT(refused({.source = filled, .target = target, .most_chunks = 0}),
              HasSubstr("no chunk"));
  EXPECT_THAT(refused({.source = filled,
                       .target = target,
                       .layer_by_layer = true,
                       .on_blocks = [](const layout::BlockRange&) {}}),
              HasSubstr("whole blocks"));
  EXPECT_THAT(refused({.source = filled, .target = target, .blocks = {{0, 1, 1}, {2, 1, 1}}}),
              HasSubstr("target twice"));
  EXPECT_THAT(refused({.source = filled, .target = filled, .blocks = {{0, 1, 2}}}),
              HasSubstr("both source"));
  EXPECT_THAT(
      refused({.source = filled, .target = target, .blocks = {{0, 0, 1}}, .layers = {2, 2}}),
      HasSubstr("layer [2, +2)"));
  const LayoutHandle heads = node.add(node.build({"four heads"}, 4));
  EXPECT_THAT(refused({.source = filled, .target = heads, .blocks = {{0, 0, 1}}}),
              HasSubstr("same layers and heads"));
  EXPECT_TRUE(node.manager->unregister_layout(target).ok());
  EXPECT_EQ(node.manager->unregister_layout(target).code(), Code::not_found);
  EXPECT_THAT(refused({.source = filled, .target = target}), HasSubstr("no layout is known"));
}

TEST(TransferManagerTest, shards_that_differ_in_more_than_layers_and_heads_are_refused) {
  TransferNode node("node");
  const LayoutHandle whole = node.add_filled(kNew);
  const auto refused = [&](const layout::LayoutConfig& config) {
    layout::BuildRequest request{.registrar = &node.manager->registrar(), .config = config};
    request.memory = memory::Allocation{.kind = MemoryKind::system};
    const LayoutHandle shard = node.add(*layout::build_layout(std::move(request)));
    const auto job = node.manager->copy(
        {.source = whole, .target = shard, .blocks = {{0, 0, 1}}, .between_shards = true});
    EXPECT_EQ(job.code(), Code::invalid_argument);
    return job.status().to_string();
  };
  layout::LayoutConfig config = testing::small_config();
  config.outer_dim = 1;
  EXPECT_THAT(refused(config), HasSubstr("differ in outer"));
  config = testing::small_config();
  config.page_size = 8;
  EXPECT_THAT(refused(config), HasSubstr("differ in token"));
  config = testing::small_config();
  config.inner_dim *= 2;
  EXPECT_THAT(refused(config), HasSubstr("differ in dim"));
  config = testing::small_config();
  config.num_heads.reset();
  EXPECT_THAT(refused(config), HasSubstr("differ in dim")) << "one that does not say its heads";
}

TEST(TransferManagerTest, a_layer_that_fits_no_slot_is_refused_with_what_to_raise) {
  TransferNode node("node", {.bounce = {.slot_bytes = 4096, .slots = 2}});
  layout::LayoutConfig config = testing::small_config();
  config.page_size = 64;
  layout::BuildRequest request{.registrar = &node.manager->registrar(), .config = config};
  request.memory = memory::Allocation{.kind = MemoryKind::device, .device = node.device};
  const LayoutHandle device = node.add(*layout::build_layout(request));
  memory::Allocation file{.kind = MemoryKind::disk, .files = &node.files};
  file.disk.path = node.folder.path() + "/";
  request.memory = file;
  const LayoutHandle disk = node.add(*layout::build_layout(request));
  const auto job = node.manager->copy({.source = device, .target = disk, .blocks = {{0, 0, 1}}});
  EXPECT_EQ(job.code(), Code::exhausted);
  EXPECT_THAT(job.status().to_string(), HasSubstr("slot_bytes"));
}

TEST(TransferManagerTest, a_copy_that_is_dropped_or_cancelled_drains) {
  TransferNode node("node", {.bounce = {.slot_bytes = 512, .slots = 2}});
  const LayoutHandle disk = node.add(kCacheKinds[5]);
  node.copy(node.add_filled(kNew), disk, {{0, 0, kBlocks}});
  const LayoutHandle device = node.add(kCacheKinds[3]);
  const CopyRequest request{.source = disk, .target = device, .blocks = {{0, 0, kBlocks}}};
  { auto dropped = node.manager->copy(request); }
  auto job = node.manager->copy(request);
  ASSERT_TRUE(job.ok());
  (void)node.manager->progress();
  job->cancel();
  EXPECT_EQ(job->outcome(), Outcome::cancelled);
  EXPECT_EQ(job->wait(std::chrono::seconds(20)), Outcome::cancelled);
  EXPECT_FALSE(job->not_in_place().empty());
  while (node.manager->figures().jobs > 0) (void)node.manager->progress();
  EXPECT_EQ(node.manager->figures().bounce_slots_in_use, 0u);
}

TEST(TransferManagerTest, what_is_reported_of_a_chunk_may_cancel_those_that_began_before_it) {
  TransferNode node("node");
  const auto hands = std::make_shared<device::testing::DeviceHands>();
  const auto device = std::make_shared<device::testing::WatchedDevice>(node.device, hands);
  auto manager = TransferManager::create(
      {.agent = node.agent.get(), .clock = &node.clock, .devices = {device}});
  ASSERT_TRUE(manager.ok()) << manager.status().to_string();
  const auto source = (*manager)->register_layout(node.build(kCacheKinds[0]));
  const auto target = (*manager)->register_layout(node.build(kCacheKinds[3]));
  std::vector<std::uint64_t> reported;
  TransferJob job;
  auto begun = (*manager)->copy({.source = *source,
                                 .target = *target,
                                 .blocks = {{0, 0, 2}},
                                 .chunk_bytes = 1,
                                 .on_blocks = [&](const layout::BlockRange& blocks) {
                                   reported.push_back(blocks.target_first);
                                   job.cancel();
                                 }});
  ASSERT_TRUE(begun.ok()) << begun.status().to_string();
  job = *std::move(begun);
  EXPECT_TRUE(run::eventually([&] {
    hands->late_events = reported.empty() ? 1 : 0;  // the first chunk's, which is asked first
    (void)(*manager)->progress();
    return job.ended();
  }));
  EXPECT_EQ(job.outcome(), Outcome::cancelled);
  EXPECT_THAT(reported, ElementsAre(1, 0));
}

TEST(TransferManagerTest, a_read_that_fails_is_reported_by_its_blocks_and_spares_the_others) {
  // A slot takes two of these blocks, and the file ends behind the fourth.
  TransferNode node("node", {.bounce = {.slot_bytes = 4096, .slots = 2}});
  const auto cache = node.build(kCacheKinds[5]);
  const LayoutHandle disk = node.add(cache);
  node.copy(node.add_filled(kNew), disk, {{0, 0, kBlocks}});
  const LayoutHandle device = node.add(kCacheKinds[3]);
  node.copy(node.add_filled(kOld), device, {{0, 0, kBlocks}});
  ASSERT_EQ(::ftruncate(cache.regions()[0]->descriptor().fd, 4 * 1536), 0);
  auto job = node.manager->copy({.source = disk, .target = device, .blocks = {{0, 0, kBlocks}}});
  ASSERT_TRUE(job.ok()) << job.status().to_string();
  EXPECT_EQ(job->wait(std::chrono::seconds(20)), Outcome::failed);
  EXPECT_FALSE(job->status().ok());
  EXPECT_THAT(job->not_in_place(), ElementsAre(layout::BlockRange{4, 4, 2}));
  for (const std::uint64_t block : {0u, 1u, 2u, 3u}) node.expect_block(device, block, kNew, block);
  for (const std::uint64_t block : {4u, 5u}) node.expect_block(device, block, kOld, block);
}

TEST(TransferManagerTest, time_runs_out_for_a_copy_and_its_blocks_are_reported) {
  TransferNode node("node");
  auto job = node.manager->copy({.source = node.add_filled(kNew),
                                 .target = node.add({"target"}),
                                 .blocks = {{0, 0, 2}, {3, 2, 1}, {4, 5, 1}},
                                 .layer_by_layer = true,
                                 .timeout = Duration(0)});
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->wait(std::chrono::seconds(20)), Outcome::timed_out);
  EXPECT_THAT(job->not_in_place(),
              ElementsAre(layout::BlockRange{0, 0, 2}, layout::BlockRange{3, 2, 1},
                          layout::BlockRange{4, 5, 1}));
}

TEST(TransferManagerTest, a_manager_that_dies_ends_its_copies) {
  TransferNode node("node");
  auto job = node.manager->copy(
      {.source = node.add_filled(kNew), .target = node.add(kCacheKinds[3]), .blocks = {{0, 0, 6}}});
  ASSERT_TRUE(job.ok());
  (void)node.manager->progress();
  node.manager.reset();
  EXPECT_TRUE(job->ended());
  EXPECT_NE(job->wait(), Outcome::none);
}

TEST(TransferManagerTest, a_handle_without_a_copy_has_failed) {
  TransferJob none;
  EXPECT_TRUE(none.ended());
  EXPECT_EQ(none.wait(), Outcome::failed);
  EXPECT_EQ(none.status().code(), Code::not_ready);
  EXPECT_FALSE(none.wait_for_layer(0));
  EXPECT_TRUE(none.not_in_place().empty());
  EXPECT_FALSE(none.route().has_two_hops());
  none.cancel();
}

TEST(TransferManagerTest, without_an_agent_or_with_a_device_that_is_none_there_is_none) {
  TransferNode node("node");
  const TransferManagerOptions good{
      .agent = node.agent.get(), .clock = &node.clock, .devices = {node.device}};
  EXPECT_TRUE(TransferManager::create(good).ok());
  const auto refused = [](const TransferManagerOptions& options) {
    return TransferManager::create(options).code() == Code::invalid_argument;
  };
  TransferManagerOptions options = good;
  options.agent = nullptr;
  EXPECT_TRUE(refused(options));
  options = good;
  options.clock = nullptr;
  EXPECT_TRUE(refused(options));
  options = good;
  options.devices.push_back(nullptr);
  EXPECT_TRUE(refused(options));
}

TEST(TransferManagerTest, a_devices_kernel_is_loaded_before_a_copy_asks_for_it) {
  TransferNode node("node");
  const auto hands = std::make_shared<device::testing::DeviceHands>();
  const auto device = std::make_shared<device::testing::WatchedDevice>(node.device, hands);
  const auto manager = TransferManager::create(
      {.agent = node.agent.get(), .clock = &node.clock, .devices = {device}});
  ASSERT_TRUE(manager.ok()) << manager.status().to_string();
  EXPECT_GT(hands->kernel_questions, 0);
}

TEST(TransferManagerTest, layouts_of_another_agent_are_refused) {
  TransferNode node("node");
  TransferNode other("other");
  EXPECT_EQ(node.manager->register_layout(other.build({"foreign"})).code(), Code::invalid_argument);
  EXPECT_EQ(node.manager->register_layout(node.build({"x"}), {.tier = std::string(65, 'x')}).code(),
            Code::invalid_argument);
}

}  // namespace
}  // namespace towpath::blockcopy
