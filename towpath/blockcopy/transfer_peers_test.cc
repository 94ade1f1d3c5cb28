#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/agent/metadata.h>
#include <towpath/blockcopy/layout_package.h>
#include <towpath/blockcopy/testing/transfer_node.h>
#include <towpath/core/format.h>
#include <towpath/layout/tensor_parallel.h>

namespace towpath::blockcopy {
namespace {

using testing::CacheKind;
using ::testing::HasSubstr;
using testing::kBlocks;
using testing::TransferNode;

constexpr std::uint32_t kSalt = 5000;
constexpr CacheKind kHere[] = {
    {"host hnd", MemoryKind::system, layout::LayoutKind::layer_separate_block_first,
     layout::BlockFormat::hnd},
    {"device", MemoryKind::device},
    {"disk", MemoryKind::disk, layout::LayoutKind::fully_contiguous,
     layout::BlockFormat::universal},
};

/// Both make progress until `done`.
template <class Done>
void drive(TransferNode& a, TransferNode& b, Done done) {
  while (!done()) {
    const bool moved = a.manager->progress();
    if (!b.manager->progress() && !moved) a.manager->wait_for_work(std::chrono::milliseconds(1));
  }
}

void copy_with(TransferNode& peer, TransferNode& node, const CopyRequest& request) {
  auto job = node.manager->copy(request);
  ASSERT_TRUE(job.ok()) << job.status().to_string();
  drive(node, peer, [&] { return job->ended(); });
  EXPECT_EQ(job->outcome(), Outcome::done)
      << to_string(job->route()) << ": " << job->status().to_string();
}

class TransferPeersTest : public ::testing::Test {
 protected:
  TransferPeersTest() {
    EXPECT_TRUE(far.agent->load_metadata(*near.agent->metadata()).ok());
    there = far.add_filled(kSalt);
    handles = near.manager->import_package(*far.manager->export_package()).value();
  }
  TransferNode near{"near"};
  TransferNode far{"far"};
  LayoutHandle there;
  std::vector<LayoutHandle> handles;
};

TEST_F(TransferPeersTest, a_peers_blocks_come_to_every_kind_of_cache_and_go_back) {
  for (const CacheKind& kind : kHere) {
    SCOPED_TRACE(kind.name);
    const LayoutHandle here = near.add(kind);
    copy_with(far, near, {.source = handles[0], .target = here, .blocks = {{1, 4, 2}, {0, 0, 1}}});
    near.expect_block(here, 4, kSalt, 1);
    near.expect_block(here, 5, kSalt, 2);
    // Back to another place of the peer's.
    copy_with(far, near, {.source = here, .target = handles[0], .blocks = {{4, 3, 1}}});
    far.expect_block(there, 3, kSalt, 3 - 2);
    far.copy(far.add_filled(kSalt), there, {{0, 0, kBlocks}});
  }
}

TEST_F(TransferPeersTest, caches_of_any_strides_are_pulled_into_every_kind_and_written_back) {
  const LayoutHandle strided = far.add_filled(kSalt + 1, testing::strided_kind("strided"));
  const auto all = near.manager->refresh(*far.manager->export_package());
  ASSERT_TRUE(all.ok()) << all.status().to_string();
  const LayoutHandle source = all->at(1);
  std::vector<CacheKind> kinds(std::begin(kHere), std::end(kHere));
  for (const MemoryKind memory : {MemoryKind::system, MemoryKind::device, MemoryKind::disk})
    kinds.push_back(testing::strided_kind("strided", memory));
  for (const CacheKind& kind : kinds) {
    SCOPED_TRACE(cat(kind.name, " ", name_of(kind.memory)));
    const LayoutHandle here = near.add(kind);
    copy_with(far, near, {.source = source, .target = here, .blocks = {{1, 4, 2}, {0, 0, 1}}});
    near.expect_block(here, 4, kSalt + 1, 1);
    near.expect_block(here, 5, kSalt + 1, 2);
    copy_with(far, near, {.source = here, .target = source, .blocks = {{4, 3, 1}}});
    far.expect_block(strided, 3, kSalt + 1, 1);
    far.copy(far.add_filled(kSalt + 1), strided, {{0, 0, kBlocks}});
  }
}

TEST_F(TransferPeersTest, blocks_go_from_one_place_of_a_peer_to_another_by_way_of_this_one) {
  TransferNode third("third");
  ASSERT_TRUE(third.agent->load_metadata(*near.agent->metadata()).ok());
  const LayoutHandle target = third.add(kHere[0]);
  const auto imported = near.manager->import_package(*third.manager->export_package());
  ASSERT_TRUE(imported.ok()) << imported.status().to_string();
  auto job = near.manager->copy(
      {.source = handles[0], .target = imported->front(), .blocks = {{2, 3, 2}}});
  ASSERT_TRUE(job.ok()) << job.status().to_string();
  drive(near, far, [&] {
    (void)third.manager->progress();
    return job->ended();
  });
  ASSERT_EQ(job->outcome(), Outcome::done) << job->status().to_string();
  third.expect_block(target, 3, kSalt, 2);
}

TEST_F(TransferPeersTest, a_remote_layout_is_never_memory_of_this_process) {
  EXPECT_TRUE(near.manager->info(handles[0])->is_remote);
  EXPECT_EQ(near.manager->local_layout(handles[0]).code(), Code::denied);
  EXPECT_TRUE(far.manager->local_layout(there).ok());
  EXPECT_EQ(near.manager->unregister_layout(handles[0]).code(), Code::invalid_argument);
  auto job = near.manager->copy(
      {.source = handles[0], .target = near.add(kHere[0]), .blocks = {{0, 0, 1}}});
  EXPECT_EQ(job->route().source, RouteEnd::remote);  // though both live in one process here
}

TEST_F(TransferPeersTest, names_that_collide_are_refused) {
  TransferNode twin("near");
  (void)twin.add_filled(1);
  EXPECT_THAT(near.manager->import_package(*twin.manager->export_package()).status().to_string(),
              HasSubstr("as this one is"));
  TransferNode other("far");
  (void)other.add_filled(1);
  const Bytes package = *other.manager->export_package();
  EXPECT_THAT(near.manager->import_package(package).status().to_string(),
              HasSubstr("has the name of far"));
  EXPECT_EQ(near.manager->import_package(*far.manager->export_package()).code(),
            Code::already_exists);
  EXPECT_TRUE(near.manager->info(handles[0]).ok());  // nothing changed
}

// Its layouts would be taken for ours, or for another's.
TEST_F(TransferPeersTest, an_agent_with_the_incarnation_of_another_is_refused) {
  for (const TransferNode* whose : {&near, &far}) {
    agent::AgentMetadata metadata = *agent::decode_metadata(*far.agent->metadata());
    metadata.identity = {"liar", whose->agent->identity().incarnation};
    const Bytes package = *encode(LayoutPackage{*agent::encode(metadata), {}});
    EXPECT_THAT(near.manager->import_package(package).status().to_string(),
                HasSubstr("has the incarnation of"));
  }
  EXPECT_TRUE(near.manager->info(handles[0]).ok());
}

TEST_F(TransferPeersTest, tiers_keep_their_names_and_kinds) {
  (void)far.add(kHere[2]);
  const auto all = near.manager->refresh(*far.manager->export_package());
  ASSERT_TRUE(all.ok()) << all.status().to_string();
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ(near.manager->info((*all)[1])->options.tier, "disk");
  EXPECT_EQ(near.manager->info((*all)[1])->location.kind, MemoryKind::disk);
  EXPECT_EQ((*all)[0], handles[0]);  // the same life keeps its handles
}

TEST_F(TransferPeersTest, a_restarted_peer_is_refreshed_and_its_old_handles_are_gone) {
  TransferNode again("far");
  const LayoutHandle held = again.add_filled(kSalt + 1);
  (void)held;
  ASSERT_TRUE(again.agent->load_metadata(*near.agent->metadata()).ok());
  const auto fresh = near.manager->refresh(*again.manager->export_package());
  ASSERT_TRUE(fresh.ok()) << fresh.status().to_string();
  EXPECT_EQ(near.manager->info(handles[0]).code(), Code::not_found);
  const LayoutHandle here = near.add(kHere[1]);
  copy_with(again, near, {.source = fresh->front(), .target = here, .blocks = {{2, 2, 1}}});
  near.expect_block(here, 2, kSalt + 1, 2);
}

TEST_F(TransferPeersTest, an_unloaded_peer_is_forgotten_and_may_come_again) {
  EXPECT_TRUE(near.manager->unload("far").ok());
  EXPECT_EQ(near.manager->unload("far").code(), Code::not_found);
  EXPECT_EQ(near.manager->info(handles[0]).code(), Code::not_found);
  EXPECT_EQ(near.manager->refresh(*far.manager->export_package()).code(), Code::not_found);
  EXPECT_TRUE(near.manager->import_package(*far.manager->export_package()).ok());
}

TEST_F(TransferPeersTest, a_copy_from_a_peer_that_is_forgotten_ends_and_reports_its_blocks) {
  auto job = near.manager->copy(
      {.source = handles[0], .target = near.add(kHere[0]), .blocks = {{0, 3, 2}}});
  ASSERT_TRUE(job.ok()) << job.status().to_string();
  ASSERT_TRUE(near.manager->unload("far").ok());
  EXPECT_NE(job->wait(std::chrono::seconds(20)), Outcome::done);
  EXPECT_TRUE(job->ended());
  EXPECT_THAT(job->not_in_place(), ::testing::ElementsAre(layout::BlockRange{0, 3, 2}));
  EXPECT_FALSE(job->status().ok());
}

TEST_F(TransferPeersTest, two_ranks_are_filled_from_one_and_one_from_two) {
  // The peer has all 2 heads; here are two ranks with one each.
  std::vector<LayoutHandle> ranks;
  for (const std::uint64_t rank : {0u, 1u}) {
    const auto cache = near.build(kHere[0], 1);
    ranks.push_back(near.add(cache, {.tier = "rank", .first_head = rank}));
    copy_with(far, near,
              {.source = handles[0],
               .target = ranks[rank],
               .blocks = {{0, 0, kBlocks}},
               .between_shards = true});
    for (std::uint64_t block = 0; block < kBlocks; ++block)
      TransferNode::expect_numbers(cache, block, kSalt, rank);
  }
  const LayoutHandle whole = near.add(kHere[1]);
  for (const LayoutHandle rank : ranks)
    copy_with(
        far, near,
        {.source = rank, .target = whole, .blocks = {{0, 0, kBlocks}}, .between_shards = true});
  near.expect_block(whole, 5, kSalt, 5);
}

}  // namespace
}  // namespace towpath::blockcopy
