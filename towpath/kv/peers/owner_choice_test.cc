// Which of the peers that have a block is asked for it.
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/kv/peers/holder_fixture.h>

namespace towpath::kv {
namespace {

using blockcopy::testing::kBlocks;
using testing::Holder;
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

}  // namespace
}  // namespace towpath::kv
