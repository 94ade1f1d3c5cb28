// Blocks that go to a store and come back: an object each.
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/backends/object/object_backend.h>
#include <towpath/backends/object/testing/swift_fixture.h>
#include <towpath/blockcopy/testing/transfer_node.h>

namespace towpath::blockcopy {
namespace {

using backends::object::testing::kBucket;
using backends::object::testing::SwiftFixture;
using testing::CacheKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kBlocks;
using testing::TransferNode;

constexpr std::uint32_t kBefore = 7000, kAfter = 9000;
constexpr CacheKind kObjects{"objects", MemoryKind::object, layout::LayoutKind::block_separate};
constexpr CacheKind kReordered{"objects of heads", MemoryKind::object,
                               layout::LayoutKind::block_separate, layout::BlockFormat::universal};

class TransferObjectsTest : public SwiftFixture<TransferObjectsTest> {
 protected:
  void SetUp() override {
    SwiftFixture::SetUp();
    if (store_) start({.bounce = {.slot_bytes = 4096, .slots = 2}});
  }
  void start(TransferManagerOptions options) {
    const testing::MoreBackend store{backends::object::object_type(), swift_->params()};
    node_ = std::make_unique<TransferNode>("node", std::move(options), std::vector{store});
  }

  /// Three blocks of one go to the other, and come back with the others as they were.
  void check_pair(const CacheKind& from, const CacheKind& to) {
    SCOPED_TRACE(cat(from.name, " to ", to.name));
    const LayoutHandle source = node_->add(from);
    const LayoutHandle target = node_->add(to);
    node_->copy(node_->add_filled(kAfter), source, {{0, 0, kBlocks}});
    node_->copy(node_->add_filled(kBefore), target, {{1, 1, 3}});
    node_->copy(source, target, {{0, 5, 1}, {3, 1, 2}});
    node_->expect_block(target, 3, kBefore, 3);
    node_->expect_block(target, 5, kAfter, 0);
    node_->expect_block(target, 1, kAfter, 3);
    node_->expect_block(target, 2, kAfter, 4);
  }

  std::unique_ptr<TransferNode> node_;
};

TEST_F(TransferObjectsTest, blocks_go_to_a_store_and_come_back_from_every_kind) {
  constexpr CacheKind kOthers[] = {
      {"host nhd"},
      {"host universal", MemoryKind::system, layout::LayoutKind::fully_contiguous,
       layout::BlockFormat::universal},
      {"device layers", MemoryKind::device, layout::LayoutKind::layer_separate_block_first},
      {"disk", MemoryKind::disk},
      kReordered};
  for (const CacheKind& other : kOthers) {
    check_pair(other, kObjects);
    check_pair(kObjects, other);
    if (HasFailure()) return;
  }
}

TEST_F(TransferObjectsTest, an_object_holds_the_bytes_of_its_block_and_no_others) {
  const auto cache = node_->build(kObjects);
  node_->copy(node_->add_filled(kAfter), node_->add(cache), {{0, 2, 1}});
  const std::string key = cache.regions()[2]->descriptor().key;
  EXPECT_EQ(store_->get({kBucket, key})->size(), cache.config().block_bytes().value());
  EXPECT_EQ(store_->get({kBucket, cache.regions()[1]->descriptor().key}).code(), Code::not_found);
}

TEST_F(TransferObjectsTest, a_block_that_is_not_in_the_store_is_reported_and_the_others_come) {
  // A chunk is a layer of a block.
  start({.bounce = {.slot_bytes = 1, .slots = 2}, .chunk_bytes = 1});
  const LayoutHandle objects = node_->add(kObjects);
  node_->copy(node_->add_filled(kAfter), objects, {{0, 0, 2}, {3, 3, 3}});
  const LayoutHandle target = node_->add({"target"});
  auto job =
      node_->manager->copy({.source = objects, .target = target, .blocks = {{0, 0, kBlocks}}});
  ASSERT_TRUE(job.ok()) << job.status().to_string();
  EXPECT_EQ(job->wait(std::chrono::seconds(20)), Outcome::failed);
  EXPECT_EQ(job->status().code(), Code::not_found) << job->status().to_string();
  EXPECT_THAT(job->not_in_place(), ElementsAre(layout::BlockRange{2, 2, 1}));
  node_->expect_block(target, 3, kAfter, 3);
}

TEST_F(TransferObjectsTest, a_part_of_a_block_is_read_but_never_put) {
  const LayoutHandle objects = node_->add(kObjects);
  const LayoutHandle filled = node_->add_filled(kAfter);
  node_->copy(filled, objects, {{0, 0, 1}});
  const auto layer = [&](LayoutHandle source, LayoutHandle target) {
    return node_->manager->copy(
        {.source = source, .target = target, .blocks = {{0, 0, 1}}, .layers = {1, 1}});
  };
  EXPECT_EQ(layer(filled, objects).code(), Code::unsupported);
  EXPECT_THAT(layer(filled, objects).status().to_string(), HasSubstr("objects are put whole"));
  const auto by_layer = node_->manager->copy(
      {.source = filled, .target = objects, .blocks = {{0, 0, 1}}, .layer_by_layer = true});
  EXPECT_EQ(by_layer.code(), Code::unsupported);
  auto read = layer(objects, node_->add({"target"}));
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->wait(std::chrono::seconds(20)), Outcome::done) << read->status().to_string();
  EXPECT_EQ(read->bytes_in_place(), 2u * 4 * 16 * 4);
}

TEST_F(TransferObjectsTest, a_block_that_fits_no_slot_is_refused_with_what_to_raise) {
  layout::LayoutConfig config = testing::small_config();
  config.page_size = 32;  // a layer fits a slot of 4096 bytes, three do not
  layout::BuildRequest request{.registrar = &node_->manager->registrar(), .config = config};
  request.memory = memory::Allocation{.kind = MemoryKind::device, .device = node_->device};
  const LayoutHandle device = node_->add(*layout::build_layout(request));
  request.kind = layout::LayoutKind::block_separate;
  request.memory = memory::Allocation{.kind = MemoryKind::object, .object = {.key = "large"}};
  const LayoutHandle objects = node_->add(*layout::build_layout(request));
  const auto job =
      node_->manager->copy({.source = device, .target = objects, .blocks = {{0, 0, 1}}});
  EXPECT_EQ(job.code(), Code::exhausted);
  EXPECT_THAT(job.status().to_string(), HasSubstr("slot_bytes"));
}

}  // namespace
}  // namespace towpath::blockcopy
