// Which of the peers that have a block is asked for it.
#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/kv/peers/holder_fixture.h>
#include <towpath/kv/tiers/block_bytes.h>
#include <towpath/run/eventually.h>

namespace towpath::kv {
namespace {

using blockcopy::testing::kBlocks;
using testing::Holder;
using testing::Lessee;
using testing::meet;

class OwnerChoiceTest : public testing::PeersTest {};

/// Has blocks 11 and 12 in its files alone, and room to grant them where its slots are let go of.
struct Crowded {
  Crowded() {
    holder.put(11);
    holder.put(12);
    EXPECT_TRUE(holder.keeper->sync().ok());
    slots = holder.keeper->room(kBlocks, 0).value();
  }

  sys::MemoryFileSystem disk;
  Holder holder{"a", {.disk = &disk}};
  std::vector<PartialBlock> slots;
};

TEST_F(OwnerChoiceTest, a_peer_that_has_all_of_a_block_is_asked_for_it_alone) {
  Holder part("a part", {.heads = 1}), all("whole", {}), near("near", {});
  part.put(21);
  all.put(21);
  meet(near, part);
  meet(near, all);
  EXPECT_TRUE(near.get(21).ok()) << near.granting().last_failure.to_string();
  EXPECT_EQ(near.granting().staged, 0U) << "it lands in its slot";
}

TEST_F(OwnerChoiceTest, a_peer_of_an_equal_share_goes_before_one_that_has_more_heads) {
  Holder wide("a wide one", {.heads = 4}), exact("exact", {}), near("near", {});
  wide.put(21);
  wide.put(22);
  exact.put(21);
  meet(near, wide);
  meet(near, exact);
  EXPECT_TRUE(near.get(21).ok()) << near.granting().last_failure.to_string();
  EXPECT_EQ(near.granting().staged, 0U) << "it lands in its slot";
  EXPECT_EQ(wide.granting().granted, 0U);
  EXPECT_TRUE(near.get(22).ok()) << near.granting().last_failure.to_string();
  EXPECT_EQ(near.granting().staged, 1U);
}

TEST_F(OwnerChoiceTest, of_peers_that_reach_as_far_the_one_with_fewer_heads_is_asked) {
  Holder wide("a wide one", {.heads = 4}), three("three", {.heads = 3}), near("near", {});
  wide.put(21);
  three.put(21);
  meet(near, wide);
  meet(near, three);
  EXPECT_TRUE(near.get(21).ok()) << near.granting().last_failure.to_string();
  EXPECT_EQ(wide.granting().granted, 0U);
  EXPECT_EQ(three.granting().granted, 1U);
}

TEST_F(OwnerChoiceTest, where_one_owner_fails_another_is_asked) {
  auto first = std::make_unique<Holder>("a", Holder::Options{});
  Holder second("b", {}), near("near", {});
  for (const BlockHash hash : {11U, 12U}) {
    first->put(hash);
    second.put(hash);
  }
  meet(near, *first);
  near.others = nullptr;
  meet(near, second);
  first.reset();
  const BlockHash wanted[] = {11, 12};
  near.bring(wanted);
  EXPECT_TRUE(near.get(11).ok()) << near.granting().last_failure.to_string();
  EXPECT_TRUE(near.get(12).ok());
  EXPECT_EQ(near.granting().failed_sessions, 1U) << "together";
  EXPECT_EQ(near.granting().leased, 2U);
}

TEST_F(OwnerChoiceTest, where_one_owner_has_no_room_now_another_is_asked) {
  Crowded crowded;
  Holder idle("b", {}), near("near", {});
  idle.put(11);
  meet(near, crowded.holder);
  meet(near, idle);
  EXPECT_TRUE(near.get(11).ok());
  EXPECT_EQ(idle.granting().granted, 1U);
  EXPECT_EQ(crowded.holder.granting().granted, 0U);
  EXPECT_EQ(near.granting().failed_sessions, 0U);
  EXPECT_EQ(near.get(12).code(), Code::exhausted) << "nobody else has it";
  EXPECT_TRUE(near.keeper->has(12));
  crowded.slots.clear();
  EXPECT_TRUE(near.get(12).ok()) << "and it was not forgotten";
}

TEST_F(OwnerChoiceTest, what_an_owner_has_no_room_for_now_is_not_gone_where_another_lost_it) {
  Crowded crowded;
  Holder other("b", {}), near("near", {});
  other.put(11);
  meet(near, crowded.holder);
  meet(near, other);
  for (BlockHash hash = 101; hash <= 100 + kBlocks; ++hash) other.put(hash);
  EXPECT_EQ(near.get(11).code(), Code::exhausted);
  EXPECT_TRUE(near.keeper->has(11));
  crowded.slots.clear();
  EXPECT_TRUE(near.get(11).ok());
}

TEST_F(OwnerChoiceTest, where_one_owner_has_no_room_now_two_others_have_a_part_each) {
  Crowded crowded;
  Holder left("b", {.heads = 1}), right("c", {.heads = 1, .first_head = 1}), near("near", {});
  left.put(11);
  right.put(11);
  meet(near, crowded.holder);
  meet(near, left);
  meet(near, right);
  EXPECT_TRUE(near.get(11).ok());
  EXPECT_EQ(near.granting().staged, 1U);
}

TEST_F(OwnerChoiceTest, of_a_peer_with_far_more_heads_few_blocks_are_staged_at_a_time) {
  ManualClock clock;  // so that none is asked for again
  Holder wide("wide", {.heads = 64 * 2, .clock = &clock});
  for (BlockHash hash = 1; hash <= 4; ++hash) wide.put(hash);
  Lessee near(wide, {.clock = &clock});  // of four blocks in a session, of two heads
  std::deque<TierTask> tasks;
  for (SlotId slot = 0; slot < 4; ++slot) {
    tasks.push_back(
        {.hash = slot + 1, .bytes = in_one_piece(near.memory, slot).value(), .slot = slot});
    near.tier->begin(tasks.back());
  }
  std::size_t answers = 0;
  EXPECT_TRUE(run::eventually([&] {
    (void)near.tier->progress();
    (void)wide.keeper->progress();
    answers += near.hear();
    return std::ranges::all_of(tasks, &TierTask::has_ended);
  }));
  for (const TierTask& task : tasks) EXPECT_TRUE(task.status.ok()) << task.status.to_string();
  EXPECT_EQ(near.tier->figures().staged, 4U);
  EXPECT_EQ(answers, 4U) << "each is as much memory as 64 of ours";
}

TEST_F(OwnerChoiceTest, a_peer_whose_blocks_have_more_heads_than_a_model_is_refused) {
  Holder near("near", {.heads = 1}), all("all", {.heads = 256}), more("more", {.heads = 600});
  EXPECT_TRUE(near.learn(all.catalogue()).ok());
  const Status refused = near.learn(more.catalogue());
  EXPECT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_THAT(refused.message(), ::testing::HasSubstr("have 600 heads"));
}

}  // namespace
}  // namespace towpath::kv
