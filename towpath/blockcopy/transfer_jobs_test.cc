#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <towpath/blockcopy/testing/transfer_node.h>
#include <towpath/blockcopy/transfer_manager.h>

namespace towpath::blockcopy {
namespace {

using testing::CacheKind;
using ::testing::HasSubstr;
using testing::kBlocks;
using testing::TransferNode;

constexpr Duration kTimeout = std::chrono::seconds(20);
constexpr std::uint32_t kNumbers = 5000;
constexpr std::uint64_t kBytesOfBlock = 1536;

TransferJob copy_all(TransferNode& node, LayoutHandle source, LayoutHandle target) {
  auto job = node.manager->copy({.source = source, .target = target, .blocks = {{0, 0, kBlocks}}});
  EXPECT_TRUE(job.ok()) << job.status().to_string();
  return *std::move(job);
}

TEST(TransferJobsTest, of_none_all_are_done) {
  TransferNode node("node");
  TransferJobs jobs(*node.manager);
  EXPECT_EQ(jobs.wait(), Outcome::done);
  EXPECT_TRUE(jobs.status().ok());
}

TEST(TransferJobsTest, are_done_when_the_last_is) {
  TransferNode node("node");
  const LayoutHandle filled = node.add_filled(kNumbers);
  const LayoutHandle targets[] = {node.add({"host"}), node.add({"device", MemoryKind::device}),
                                  node.add({"disk", MemoryKind::disk})};
  TransferJobs jobs(*node.manager);
  for (const LayoutHandle target : targets) jobs.add(copy_all(node, filled, target));
  EXPECT_EQ(jobs.outcome(), Outcome::none);
  EXPECT_EQ(jobs.under_way(), 3U);
  EXPECT_EQ(jobs.wait(Duration(0)), Outcome::none);
  ASSERT_EQ(jobs.wait(kTimeout), Outcome::done) << jobs.status().to_string();
  EXPECT_EQ(jobs.bytes_in_place(), 3 * kBlocks * kBytesOfBlock);
  for (const LayoutHandle target : targets) node.expect_block(target, 2, kNumbers, 2);
}

TEST(TransferJobsTest, one_that_fails_is_named_and_the_others_are_waited_for) {
  TransferNode node("node");
  const LayoutHandle filled = node.add_filled(kNumbers);
  const auto cut = node.build({"cut", MemoryKind::disk});
  const LayoutHandle disk = node.add(cut);
  node.copy(filled, disk, {{0, 0, kBlocks}});
  ASSERT_EQ(::ftruncate(cut.regions()[0]->descriptor().fd, kBytesOfBlock), 0);
  const LayoutHandle good = node.add({"good", MemoryKind::disk});
  TransferJobs jobs(*node.manager);
  jobs.add(copy_all(node, filled, node.add({"first"})));
  jobs.add(copy_all(node, disk, node.add({"second"})));
  jobs.add(copy_all(node, filled, good));
  EXPECT_EQ(jobs.wait(kTimeout), Outcome::failed);
  EXPECT_TRUE(jobs.ended());
  EXPECT_TRUE(jobs.is_lost());
  EXPECT_THAT(jobs.status().to_string(), HasSubstr("copy 1 of 3 failed"));
  EXPECT_EQ(jobs.status().code(), jobs.jobs()[1].status().code());
  EXPECT_EQ(jobs.jobs()[2].outcome(), Outcome::done);
  node.expect_block(good, 5, kNumbers, 5);
}

TEST(TransferJobsTest, those_that_are_cancelled_drain) {
  TransferNode node("node", {.bounce = {.slot_bytes = 512, .slots = 2}});
  const LayoutHandle disk = node.add({"disk", MemoryKind::disk});
  TransferJobs jobs(*node.manager);
  for (int i = 0; i < 2; ++i)
    jobs.add(copy_all(node, disk, node.add({"device", MemoryKind::device})));
  jobs.cancel();
  EXPECT_TRUE(jobs.is_lost());
  EXPECT_EQ(jobs.wait(kTimeout), Outcome::cancelled);
  EXPECT_EQ(node.manager->figures().bounce_slots_in_use, 0U);
}

}  // namespace
}  // namespace towpath::blockcopy
