// Which of the peers that have a block is asked for it.
#include <memory>

#include <gtest/gtest.h>

#include <towpath/kv/peers/holder_fixture.h>

namespace towpath::kv {
namespace {

using testing::Holder;
using testing::meet;

class OwnerChoiceTest : public testing::PeersTest {};

TEST_F(OwnerChoiceTest, a_peer_that_has_all_of_a_block_is_asked_for_it_alone) {
  Holder part("a part", {.heads = 1}), all("whole", {}), near("near", {});
  part.put(21);
  all.put(21);
  meet(near, part);
  meet(near, all);
  EXPECT_TRUE(near.get(21).ok()) << near.granting().last_failure.to_string();
  EXPECT_EQ(near.granting().staged, 0U) << "it lands in its slot";
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

}  // namespace
}  // namespace towpath::kv
