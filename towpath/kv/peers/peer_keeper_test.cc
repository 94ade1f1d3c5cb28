#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/kv/peers/holder_fixture.h>
#include <towpath/rendezvous/in_process.h>

namespace towpath::kv {
namespace {

using ::testing::Contains;
using testing::Holder;
using testing::kBlocks;

/// Each learns of the other; `near` drives `far` while it waits.
void meet(Holder& near, Holder& far) {
  ASSERT_TRUE(far.keeper->learn(near.keeper->catalogue().value()).ok());
  const Status learned = near.keeper->learn(far.keeper->catalogue().value());
  ASSERT_TRUE(learned.ok()) << learned.to_string();
  near.others = [before = near.others, &far] {
    if (before) before();
    (void)far.keeper->progress();
  };
}

TEST(PeerKeeperTest, a_peers_blocks_are_held_as_ones_own) {
  Holder far("far", {}), near("near", {});
  for (BlockHash hash : {11U, 12U, 13U, 14U, 15U}) far.put(hash);
  meet(near, far);
  EXPECT_TRUE(near.keeper->has(11));
  EXPECT_FALSE(near.keeper->has(10));
  EXPECT_THAT(near.keeper->take_news().stored, Contains(11));
  const BlockHash wanted[] = {11, 12, 13, 14, 15};
  near.keeper->prepare(wanted);
  EXPECT_EQ(near.keeper->figures().borrowed, 5U) << near.keeper->figures().last_failure.to_string();
  for (const BlockHash hash : wanted) EXPECT_TRUE(near.get(hash).ok()) << hash;
  EXPECT_EQ(near.keeper->figures().borrowed, 5U) << "what came is here";
  EXPECT_EQ(near.get(10).code(), Code::not_found);
  EXPECT_TRUE(far.get(11).ok());
}

TEST(PeerKeeperTest, parts_of_two_ranks_make_a_block_and_a_rank_takes_its_part) {
  Holder left("left", {.heads = 1}), right("right", {.heads = 1, .first_head = 1});
  Holder whole("whole", {});
  left.put(21);
  right.put(21);
  left.put(22);
  meet(whole, left);
  EXPECT_FALSE(whole.keeper->has(21)) << "half of it";
  meet(whole, right);
  EXPECT_TRUE(whole.keeper->has(21));
  EXPECT_FALSE(whole.keeper->has(22));
  EXPECT_TRUE(whole.get(21).ok()) << whole.keeper->figures().last_failure.to_string();

  whole.put(23);
  Holder third("third", {.heads = 1, .first_head = 1});
  meet(third, whole);
  EXPECT_TRUE(third.get(23).ok()) << third.keeper->figures().last_failure.to_string();
}

TEST(PeerKeeperTest, what_a_peer_has_in_files_is_staged_there) {
  sys::MemoryFileSystem disk;
  Holder far("far", {.disk = &disk}), near("near", {});
  for (BlockHash hash = 1; hash <= 2 * kBlocks; ++hash) far.put(hash);
  meet(near, far);
  for (BlockHash hash = 1; hash <= 3; ++hash) EXPECT_TRUE(near.get(hash).ok()) << hash;
}

TEST(PeerKeeperTest, a_peer_that_dies_costs_a_miss_and_is_not_asked_again) {
  for (const bool in_the_middle : {false, true}) {
    auto far = std::make_unique<Holder>("far", Holder::Options{});
    Holder near("near", {.patience = std::chrono::milliseconds(200)});
    far->put(11);
    meet(near, *far);
    if (!in_the_middle) far.reset();
    near.others = [&] {
      if (far) (void)far->keeper->progress();
      if (far && far->keeper->figures().lent > 0) far.reset();
    };
    (void)near.keeper->take_news();
    EXPECT_FALSE(near.get(11).ok());
    EXPECT_EQ(near.keeper->figures().failed_sessions, 1U);
    EXPECT_FALSE(near.keeper->has(11));
    EXPECT_THAT(near.keeper->take_news().lost, Contains(11));
    EXPECT_EQ(near.get(11).code(), Code::not_found);
    EXPECT_EQ(near.keeper->figures().failed_sessions, 1U);
  }
}

TEST(PeerKeeperTest, what_does_not_prove_is_a_miss) {
  Holder far("far", {}), near("near", {});
  far.put(11);
  meet(near, far);
  far.spoil_memory();  // the owner finds it itself
  EXPECT_FALSE(near.get(11).ok());
  EXPECT_FALSE(near.keeper->has(11));

  far.put(12);
  ASSERT_TRUE(near.keeper->learn(far.keeper->catalogue().value()).ok());
  near.others = [&] {  // after it was lent
    const auto lent = far.keeper->figures().lent;
    (void)far.keeper->progress();
    if (far.keeper->figures().lent > lent) far.spoil_memory();
  };
  EXPECT_FALSE(near.get(12).ok());
  EXPECT_EQ(near.keeper->figures().not_proven, 1U);
  EXPECT_FALSE(near.keeper->has(12));
}

TEST(PeerKeeperTest, catalogues_of_other_caches_are_refused) {
  Holder near("near", {});
  Holder other("other", {.name_space = "another model"});
  EXPECT_EQ(near.keeper->learn(other.keeper->catalogue().value()).code(), Code::invalid_argument);
  Holder beside("beside", {.heads = 1, .first_head = 2});
  EXPECT_EQ(near.keeper->learn(beside.keeper->catalogue().value()).code(), Code::invalid_argument);
  Holder twin("near", {});
  EXPECT_EQ(near.keeper->learn(twin.keeper->catalogue().value()).code(), Code::already_exists);
  const Bytes whole = Holder("far", {}).keeper->catalogue().value();
  for (const std::size_t size : {std::size_t{0}, std::size_t{40}, whole.size() - 1})
    EXPECT_FALSE(near.keeper->learn(ConstByteSpan(whole).first(size)).ok()) << size;
}

TEST(PeerKeeperTest, catalogues_are_found_at_a_rendezvous_and_leave_with_their_owner) {
  const auto directory = std::make_shared<rendezvous::Directory>();
  const auto join = [&](Holder& holder, std::vector<std::string> others) {
    holder.keeper->join(rendezvous::InProcess::open(directory).value(),
                        {.others = std::move(others), .pace = Duration::zero()});
  };
  auto far = std::make_unique<Holder>("far", Holder::Options{});
  Holder near("near", {}), late("late", {});
  const auto drive = [&] {
    for (Holder* each : {&near, far.get(), &late})
      if (each != nullptr) (void)each->keeper->progress();
  };
  join(near, {});  // hears changes
  far->put(11);
  join(*far, {});
  drive();
  drive();
  EXPECT_TRUE(near.keeper->has(11)) << near.keeper->figures().last_failure.to_string();
  EXPECT_TRUE(far->node.agent->peer("near").ok()) << "told again to who came before";
  join(late, {"far"});  // hears nothing of what was before, and asks
  drive();
  drive();
  EXPECT_TRUE(late.keeper->has(11)) << late.keeper->figures().last_failure.to_string();
  near.others = [&] { (void)far->keeper->progress(); };
  EXPECT_TRUE(near.get(11).ok());
  far->put(12);
  drive();
  drive();
  EXPECT_TRUE(near.keeper->has(12)) << "what has changed is told";
  far.reset();
  drive();
  drive();
  EXPECT_FALSE(near.keeper->has(12));
  EXPECT_FALSE(late.keeper->has(11));
}

TEST(PeerKeeperTest, the_same_catalogue_again_does_not_bring_back_a_peer_that_failed) {
  auto far = std::make_unique<Holder>("far", Holder::Options{});
  Holder near("near", {.patience = std::chrono::milliseconds(1)});
  far->put(11);
  meet(near, *far);
  near.others = nullptr;
  EXPECT_FALSE(near.get(11).ok());
  ASSERT_TRUE(near.keeper->learn(far->keeper->catalogue().value()).ok());
  EXPECT_FALSE(near.keeper->has(11));
  far->put(12);
  ASSERT_TRUE(near.keeper->learn(far->keeper->catalogue().value()).ok());
  EXPECT_TRUE(near.keeper->has(11));
}

TEST(PeerKeeperTest, a_lease_ends_and_so_does_what_is_asked_for_twice) {
  Holder far("far", {});
  far.put(11);
  ManualClock clock;
  BlockLender lender({.clock = &clock, .lease = std::chrono::seconds(3)}, *far.keeper);
  const AgentIdentity borrower{"b", 5};
  const PeerMessage ask{.session = 1, .hashes = {11, 12}};
  EXPECT_EQ(lender.lend(borrower, ask).lent.size(), 1U);
  EXPECT_EQ(lender.lend(borrower, ask).lent.size(), 1U);
  EXPECT_EQ(lender.sessions(), 1U);
  clock.advance(std::chrono::seconds(2));
  lender.end_leases();
  EXPECT_EQ(lender.sessions(), 1U);
  clock.advance(std::chrono::seconds(1));
  lender.end_leases();
  EXPECT_EQ(lender.sessions(), 0U);
  EXPECT_EQ(lender.ended_leases(), 1U);
}

TEST(PeerKeeperTest, messages_travel_and_what_is_cut_is_refused) {
  const PeerMessage message{.word = PeerMessage::Word::lend,
                            .session = 7,
                            .hashes = {1, 2},
                            .lent = {{3, 4, {DigestAlgorithm::crc32c, 5, 6}}},
                            .lease = std::chrono::seconds(9)};
  const Bytes bytes = encode(message).value();
  EXPECT_EQ(decode_peer_message(bytes).value(), message);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode_peer_message(ConstByteSpan(bytes).first(size)).ok()) << size;
  EXPECT_FALSE(encode(PeerMessage{.hashes = std::vector<BlockHash>(kMaxBlocksAsked + 1)}).ok());
}

}  // namespace
}  // namespace towpath::kv
