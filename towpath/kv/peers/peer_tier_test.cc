#include <deque>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/kv/peers/holder_fixture.h>
#include <towpath/kv/tiers/block_bytes.h>
#include <towpath/rendezvous/in_process.h>
#include <towpath/run/eventually.h>

namespace towpath::kv {
namespace {

using blockcopy::testing::kBlocks;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::Holder;
using testing::Lessee;
using testing::meet;

class PeerTierTest : public testing::PeersTest {};

TEST_F(PeerTierTest, a_peers_blocks_are_held_as_ones_own) {
  Holder far("far", {}), near("near", {});
  for (BlockHash hash : {11U, 12U, 13U, 14U, 15U}) far.put(hash);
  meet(near, far);
  EXPECT_TRUE(near.keeper->has(11));
  EXPECT_FALSE(near.keeper->has(10));
  EXPECT_THAT(near.keeper->take_news().stored, Contains(11));
  const BlockHash wanted[] = {11, 12, 13, 14, 15};
  near.bring(wanted);
  EXPECT_EQ(near.granting().leased, 5U) << near.granting().last_failure.to_string();
  for (const BlockHash hash : wanted) EXPECT_TRUE(near.get(hash).ok()) << hash;
  EXPECT_EQ(near.granting().leased, 5U) << "what came is here";
  EXPECT_EQ(near.granting().staged, 0U) << "blocks of equal shares land in their slots";
  EXPECT_EQ(near.get(10).code(), Code::not_found);
  EXPECT_TRUE(far.get(11).ok());
}

TEST_F(PeerTierTest, a_block_whose_slot_is_in_pieces_is_staged_whole_and_proven_from_there) {
  Holder far("far", {}), near("near", {.in_pieces = true});
  far.put(11);
  far.put(12);
  meet(near, far);
  EXPECT_TRUE(near.get(11).ok()) << near.granting().last_failure.to_string();
  EXPECT_EQ(near.granting().staged, 1U);
  far.spoil_memory();
  EXPECT_EQ(near.get(12).code(), Code::corrupt);
  EXPECT_EQ(near.granting().not_proven, 1U);
  EXPECT_FALSE(near.keeper->has(12));
  EXPECT_TRUE(near.get(11).ok()) << "it is here";
}

TEST_F(PeerTierTest, parts_of_two_ranks_make_a_block_and_a_rank_takes_its_part) {
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
  EXPECT_TRUE(whole.get(21).ok()) << whole.granting().last_failure.to_string();

  whole.put(23);
  Holder third("third", {.heads = 1, .first_head = 1});
  meet(third, whole);
  EXPECT_TRUE(third.get(23).ok()) << third.granting().last_failure.to_string();
  EXPECT_EQ(whole.granting().staged, 1U);
  EXPECT_EQ(third.granting().staged, 1U);
}

TEST_F(PeerTierTest, what_a_peer_has_in_files_is_staged_there) {
  sys::MemoryFileSystem disk;
  Holder far("far", {.disk = &disk}), near("near", {});
  for (BlockHash hash = 1; hash <= 2 * kBlocks; ++hash) far.put(hash);
  meet(near, far);
  for (BlockHash hash = 1; hash <= 3; ++hash) EXPECT_TRUE(near.get(hash).ok()) << hash;
}

TEST_F(PeerTierTest, a_peer_that_dies_costs_a_miss_and_is_not_asked_again) {
  for (const bool in_the_middle : {false, true}) {
    auto far = std::make_unique<Holder>("far", Holder::Options{});
    Holder near("near", {.timeout = std::chrono::milliseconds(200)});
    far->put(11);
    meet(near, *far);
    if (!in_the_middle) far.reset();
    near.others = [&] {
      if (far) (void)far->keeper->progress();
      if (far && far->granting().granted > 0) far.reset();
    };
    (void)near.keeper->take_news();
    EXPECT_FALSE(near.get(11).ok());
    EXPECT_EQ(near.granting().failed_sessions, 1U);
    EXPECT_FALSE(near.keeper->has(11));
    EXPECT_THAT(near.keeper->take_news().lost, Contains(11));
    EXPECT_EQ(near.get(11).code(), Code::not_found);
    EXPECT_EQ(near.granting().failed_sessions, 1U);
  }
}

TEST_F(PeerTierTest, a_queue_that_is_full_is_waited_for_and_costs_no_block) {
  Holder far("far", {}), near("near", {});
  far.put(11);
  meet(near, far);
  near.others = [&far, looks = 0]() mutable {  // it reads nothing before it was asked
    if (++looks > 10) (void)far.keeper->progress();
  };
  for (const std::size_t size : {std::size_t{1} << 20U, std::size_t{1}})
    while (near.node.agent->notify("far", Bytes(size)).ok()) continue;
  EXPECT_TRUE(near.get(11).ok()) << near.granting().last_failure.to_string();
  EXPECT_EQ(near.granting().failed_sessions, 0U);
}

TEST_F(PeerTierTest, what_a_peer_has_no_more_is_a_miss_and_the_rest_is_granted) {
  Holder far("far", {}), near("near", {});
  for (BlockHash hash = 1; hash <= kBlocks; ++hash) far.put(hash);
  meet(near, far);
  far.put(kBlocks + 1);  // in the place of the first
  EXPECT_EQ(near.get(1).code(), Code::not_found);
  EXPECT_FALSE(near.keeper->has(1));
  EXPECT_TRUE(near.get(2).ok());
  EXPECT_EQ(near.granting().failed_sessions, 0U);
}

TEST_F(PeerTierTest, what_is_leased_goes_down_to_files_and_never_to_peers) {
  sys::MemoryFileSystem disk;
  Holder far("far", {}), near("near", {.disk = &disk});
  far.put(11);
  meet(near, far);
  near.put(12);
  EXPECT_TRUE(near.get(11).ok());
  ASSERT_TRUE(near.keeper->sync().ok());
  EXPECT_EQ(near.keeper->figures().written, 2U);
  EXPECT_EQ(near.keeper->figures().not_written, 0U);
  EXPECT_FALSE(far.keeper->has(12)) << "nobody told it";
  near.keeper->peers()->forget("far");
  EXPECT_TRUE(near.get(11).ok());
}

TEST_F(PeerTierTest, a_sync_does_not_wait_for_peers_that_have_more_to_give_than_they_do_at_once) {
  for (const bool background : {true, false}) {
    sys::MemoryFileSystem disk;
    Holder far("far", {}),
        near("near", {.disk = &disk, .background = background, .staged_blocks = 1});
    const CachedBlock wanted[] = {{11}, {12}, {13}, {14}};
    for (const CachedBlock& block : wanted) far.put(block.hash);
    meet(near, far);
    const auto coming = near.keeper->bring(wanted, kUsualPriority);
    near.put(21);
    ASSERT_TRUE(near.keeper->sync().ok());  // nobody drives peers meanwhile
    EXPECT_EQ(near.keeper->figures().written, 1U);
    ASSERT_TRUE(run::eventually([&] {
      (void)near.keeper->progress();
      near.others();
      for (const ComingBlocks::Came& came : coming->take())
        EXPECT_TRUE(came.status.ok()) << came.status.to_string();
      return coming->left() == 0;
    }));
    EXPECT_EQ(near.granting().failed_sessions, 0U);
  }
}

TEST_F(PeerTierTest, what_does_not_prove_is_a_miss) {
  Holder far("far", {}), near("near", {});
  far.put(11);
  meet(near, far);
  far.spoil_memory();  // the owner does not look
  EXPECT_EQ(near.get(11).code(), Code::corrupt);
  EXPECT_EQ(near.granting().not_proven, 1U);
  EXPECT_FALSE(near.keeper->has(11));

  far.put(12);
  ASSERT_TRUE(near.learn(far.catalogue()).ok());
  near.others = [&, granted = far.granting().granted,
                 spoiled = false]() mutable {  // after it was granted
    (void)far.keeper->progress();
    if (far.granting().granted > granted && !std::exchange(spoiled, true)) far.spoil_memory();
  };
  EXPECT_EQ(near.get(12).code(), Code::corrupt);
  EXPECT_EQ(near.granting().not_proven, 2U);
  EXPECT_FALSE(near.keeper->has(12));
}

TEST_F(PeerTierTest, a_task_does_not_end_while_bytes_may_land_in_its_slot) {
  Holder far("far", {});
  far.put(11);
  for (const bool is_cancelled : {true, false}) {
    SCOPED_TRACE(is_cancelled ? "cancelled" : "the peer is forgotten");
    Lessee near(far);
    TierTask task{.hash = 11, .bytes = in_one_piece(near.memory, 2).value(), .slot = 2};
    near.tier->begin(task);
    ASSERT_TRUE(run::eventually([&] { return near.progress(); }));
    (void)near.tier->progress();
    ASSERT_EQ(near.node.manager->figures().jobs, 1U) << "the copy has begun";
    if (is_cancelled)
      near.tier->cancel(task);
    else
      near.tier->forget("far");
    EXPECT_FALSE(task.has_ended);
    EXPECT_TRUE(run::eventually([&] {
      (void)near.progress();
      return task.has_ended;
    }));
    EXPECT_EQ(near.node.manager->figures().jobs, 0U) << "and now it is quiesced";
    EXPECT_EQ(task.status.ok(), is_cancelled) << task.status.to_string();
  }
}

// One peer has half of it, another all: the task is with both, and may end by the first.
TEST_F(PeerTierTest, no_byte_of_one_peer_lands_in_a_slot_whose_task_has_ended_by_another) {
  Holder half("b", {.heads = 1}), whole("c", {});
  half.put(11);
  whole.put(11);
  Lessee near(whole);
  ASSERT_TRUE(near.tier->learn(half.catalogue()).ok());
  TierTask task{.hash = 11, .bytes = in_one_piece(near.memory, 2).value(), .slot = 2};
  near.tier->begin(task);
  ASSERT_TRUE(run::eventually([&] { return near.progress(); }));
  (void)near.tier->progress();
  ASSERT_EQ(near.node.manager->figures().jobs, 1U) << "the copy of all of it has begun";
  near.tier->cancel(task);
  ASSERT_TRUE(run::eventually([&] {
    if (!task.has_ended) (void)near.progress();
    return task.has_ended;
  }));
  std::ranges::fill(task.bytes, std::byte{0x5a});  // the slot is another block's now
  EXPECT_TRUE(run::eventually([&] {
    (void)near.progress();
    return near.node.manager->figures().jobs == 0;
  }));
  EXPECT_TRUE(std::ranges::all_of(task.bytes, [](std::byte at) { return at == std::byte{0x5a}; }));
}

TEST_F(PeerTierTest, the_next_session_is_asked_for_before_the_first_is_pulled) {
  for (const bool is_forgotten : {false, true}) {
    SCOPED_TRACE(is_forgotten ? "and then the peer is forgotten" : "");
    Holder far("far", {});
    for (BlockHash hash = 1; hash <= kBlocks; ++hash) far.put(hash);
    Lessee near(far);  // of four blocks in a session
    std::deque<TierTask> tasks;
    for (SlotId slot = 0; slot < kBlocks; ++slot) {
      tasks.push_back(
          {.hash = slot + 1, .bytes = in_one_piece(near.memory, slot).value(), .slot = slot});
      near.tier->begin(tasks.back());
    }
    (void)near.tier->progress();
    EXPECT_TRUE(run::eventually([&] {
      (void)far.keeper->progress();
      return far.granting().granted == kBlocks;
    }));
    EXPECT_EQ(near.tier->figures().leased, 0U);
    if (is_forgotten) near.tier->forget("far");
    EXPECT_TRUE(run::eventually([&] {
      (void)near.progress();
      return std::ranges::all_of(tasks, &TierTask::has_ended);
    }));
    for (const TierTask& task : tasks) EXPECT_EQ(task.status.ok(), !is_forgotten);
    EXPECT_EQ(near.tier->figures().failed_sessions, is_forgotten ? 2U : 0U);
  }
}

// Other blocks are where they were: the owner grants them from its files.
TEST_F(PeerTierTest, what_a_lease_was_over_for_before_it_was_read_is_asked_for_once_more) {
  sys::MemoryFileSystem disk;
  ManualClock clock;
  Holder far("far", {.disk = &disk, .clock = &clock});
  far.put(11);
  far.put(12);
  ASSERT_TRUE(far.keeper->sync().ok());
  Lessee near(far, {.staged_blocks = 1, .clock = &clock});
  std::deque<TierTask> tasks;
  for (SlotId slot = 0; slot < 2; ++slot) {
    tasks.push_back(
        {.hash = slot + 11, .bytes = in_one_piece(near.memory, slot).value(), .slot = slot});
    near.tier->begin(tasks.back());
  }
  (void)near.tier->progress();
  std::size_t heard = 0;
  ASSERT_TRUE(run::eventually([&] {
    (void)far.keeper->progress();
    (void)near.node.manager->progress();
    return (heard += near.hear()) == 2;
  }));
  clock.advance(far.options.lease);
  (void)far.keeper->progress();  // it lets go of them
  for (BlockHash hash = 101; hash <= 100 + kBlocks; ++hash) far.put(hash);
  EXPECT_TRUE(run::eventually([&] {
    (void)near.progress();
    return std::ranges::all_of(tasks, &TierTask::has_ended);
  }));
  for (const TierTask& task : tasks) EXPECT_TRUE(task.status.ok()) << task.status.to_string();
  EXPECT_EQ(near.tier->figures().not_proven, 0U);
}

TEST_F(PeerTierTest, catalogues_of_other_caches_are_refused) {
  Holder near("near", {});
  Holder other("other", {.name_space = "another model"});
  EXPECT_EQ(near.learn(other.catalogue()).code(), Code::invalid_argument);
  Holder beside("beside", {.heads = 1, .first_head = 2});
  EXPECT_EQ(near.learn(beside.catalogue()).code(), Code::invalid_argument);
  Holder twin("near", {});
  EXPECT_EQ(near.learn(twin.catalogue()).code(), Code::already_exists);
  const Bytes whole = Holder("far", {}).catalogue();
  for (const std::size_t size : {std::size_t{0}, std::size_t{40}, whole.size() - 1})
    EXPECT_FALSE(near.learn(ConstByteSpan(whole).first(size)).ok()) << size;
}

TEST_F(PeerTierTest, catalogues_are_found_at_a_rendezvous_and_leave_with_their_owner) {
  const auto directory = std::make_shared<rendezvous::Directory>();
  const auto join = [&](Holder& holder, std::vector<std::string> others) {
    holder.keeper->peers()->join(rendezvous::InProcess::open(directory).value(),
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
  EXPECT_TRUE(near.keeper->has(11)) << near.granting().last_failure.to_string();
  EXPECT_TRUE(far->node.agent->peer("near").ok()) << "told again to who came before";
  join(late, {"far"});  // hears nothing of what was before, and asks
  drive();
  drive();
  EXPECT_TRUE(late.keeper->has(11)) << late.granting().last_failure.to_string();
  near.others = [&] { (void)far->keeper->progress(); };
  EXPECT_TRUE(near.get(11).ok());
  far->put(12);
  EXPECT_TRUE(run::eventually([&] {
    drive();
    return near.keeper->has(12) && late.keeper->has(12);
  })) << "what has changed is told";
  far.reset();
  drive();
  drive();
  EXPECT_FALSE(near.keeper->has(12));
  EXPECT_FALSE(late.keeper->has(12));
  EXPECT_TRUE(late.keeper->has(11)) << "it was borrowed, and whoever did tells so";
}

TEST_F(PeerTierTest, at_one_place_those_of_a_group_find_each_other_and_nobody_else) {
  const auto directory = std::make_shared<rendezvous::Directory>();
  const auto join = [&](Holder& holder, const std::string& group, const char* other) {
    holder.keeper->peers()->join(rendezvous::InProcess::open(directory).value(),
                                 {.others = {other}, .group = group, .pace = Duration::zero()});
  };
  Holder near("near", {}), far("far", {}), twin("far", {});  // as in another job
  far.put(11);
  twin.put(12);
  join(near, "job 1", "far");
  join(far, "job 1", "near");
  join(twin, "job 2", "near");
  for (int i = 0; i < 3; ++i)
    for (Holder* each : {&twin, &far, &near}) (void)each->keeper->progress();
  EXPECT_TRUE(near.keeper->has(11)) << near.granting().last_failure.to_string();
  EXPECT_FALSE(near.keeper->has(12));
  EXPECT_EQ(near.granting().peers, 1U);
  EXPECT_EQ(twin.granting().peers, 0U);
}

TEST_F(PeerTierTest, who_has_other_notifications_hands_on_what_peers_say) {
  Holder far("far", {}), near("near", {});
  far.put(11);
  meet(near, far);
  PeerLeases& leases = *far.keeper->peers();
  const auto say = [&](const Bytes& message) {
    return leases.hear({.from = near.node.agent->identity(), .message = message}).ok();
  };
  EXPECT_FALSE(say(to_bytes("a word for the engine")));
  EXPECT_FALSE(leases.is_granting());
  EXPECT_TRUE(say(encode(PeerMessage{.session = 1, .hashes = {11}}).value()));
  EXPECT_TRUE(leases.is_granting());
  EXPECT_TRUE(say(encode(PeerMessage{.word = PeerMessage::Word::release, .session = 1}).value()));
  EXPECT_FALSE(leases.is_granting());
}

TEST_F(PeerTierTest, the_same_catalogue_again_does_not_bring_back_a_peer_that_failed) {
  auto far = std::make_unique<Holder>("far", Holder::Options{});
  Holder near("near", {.timeout = std::chrono::milliseconds(1)});
  far->put(11);
  meet(near, *far);
  near.others = nullptr;
  EXPECT_FALSE(near.get(11).ok());
  ASSERT_TRUE(near.learn(far->catalogue()).ok());
  EXPECT_FALSE(near.keeper->has(11));
  far->put(12);
  ASSERT_TRUE(near.learn(far->catalogue()).ok());
  EXPECT_TRUE(near.keeper->has(11));
}

TEST_F(PeerTierTest, what_is_granted_to_one_that_has_given_up_is_not_held) {
  Holder far("far", {}), near("near", {.timeout = std::chrono::milliseconds(1)});
  far.put(11);
  meet(near, far);
  near.others = nullptr;
  EXPECT_FALSE(near.get(11).ok());
  for (int i = 0; i < 3; ++i) (void)far.keeper->progress();
  EXPECT_FALSE(far.keeper->peers()->is_granting());
}

// Of the parts that were asked for, one comes from another rank, which has its name.
TEST_F(PeerTierTest, a_peer_that_came_back_with_other_heads_does_not_make_a_block_whole) {
  Holder left("left", {.heads = 1}), whole("whole", {});
  auto right = std::make_unique<Holder>("right", Holder::Options{.heads = 1, .first_head = 1});
  left.put(21);
  right->put(21);
  meet(whole, left);
  meet(whole, *right);
  bool came_back = false;
  whole.others = [&, looks = 0]() mutable {
    (void)left.keeper->progress();
    if (++looks == 3) {
      came_back = true;
      right = std::make_unique<Holder>("right", Holder::Options{.heads = 1});
      right->put(21);
      ASSERT_TRUE(right->learn(whole.catalogue()).ok());
      ASSERT_TRUE(whole.learn(right->catalogue()).ok());
    }
    if (looks > 3) (void)right->keeper->progress();
  };
  EXPECT_FALSE(whole.get(21).ok());
  EXPECT_TRUE(came_back);
}

TEST_F(PeerTierTest, a_new_catalogue_takes_away_what_it_does_not_name_and_leaves_the_rest) {
  Holder far("far", {}), near("near", {});
  for (BlockHash hash = 1; hash <= kBlocks; ++hash) far.put(hash);
  ASSERT_TRUE(near.learn(far.catalogue()).ok());
  (void)near.keeper->take_news();
  far.put(kBlocks + 1);  // in the place of the first
  ASSERT_TRUE(near.learn(far.catalogue()).ok());
  const TieredKeeper::News news = near.keeper->take_news();
  EXPECT_THAT(news.stored, ElementsAre(kBlocks + 1));
  EXPECT_THAT(news.lost, ElementsAre(1U));
  EXPECT_TRUE(near.keeper->has(2));
}

TEST_F(PeerTierTest, a_lease_ends_and_so_does_what_is_asked_for_twice) {
  blockcopy::testing::TransferNode node("far");
  ManualClock clock;
  BlockDirectory block_directory;
  auto cache = TieredCache::make({clock, block_directory, node.build({"kept"}), {}}, {}).value();
  auto slot = cache->allocate(1).value();
  (void)cache->register_block({std::move(slot.front()), {.block = {.hash = 11}, .digest = {}}});
  bool is_gone = false;
  BlockLessor lessor({.clock = &clock,
                      .block_directory = &block_directory,
                      .lease = std::chrono::seconds(3),
                      .most_blocks = 3,
                      .is_gone = [&](const AgentIdentity&) { return is_gone; }},
                     *cache);
  const AgentIdentity lessee{"b", 5};
  const PeerMessage ask{.session = 1, .hashes = {11, 12}};
  const auto granted = [&](const PeerMessage& asked) {
    lessor.ask(lessee, asked);
    (void)cache->progress();
    const auto answers = lessor.take_answers();
    return answers.empty() ? 99 : answers.front().message.granted.size();
  };
  EXPECT_EQ(granted(ask), 1U);
  EXPECT_EQ(granted(ask), 1U);
  EXPECT_EQ(lessor.sessions(), 1U);
  clock.advance(std::chrono::seconds(2));
  lessor.end_leases();
  EXPECT_EQ(lessor.sessions(), 1U);
  clock.advance(std::chrono::seconds(1));
  lessor.end_leases();
  EXPECT_EQ(lessor.sessions(), 0U);
  EXPECT_EQ(lessor.ended_leases(), 1U);
  EXPECT_EQ(granted({.session = 2, .hashes = {11, 11, 11, 11}}), 3U)
      << "as much as is leased at once";
  EXPECT_EQ(granted({.session = 3, .hashes = {11}}), 0U);
  lessor.release(lessee, 2);
  EXPECT_EQ(granted({.session = 4, .hashes = {11}}), 1U);
  is_gone = true;
  lessor.end_leases();
  EXPECT_EQ(lessor.sessions(), 0U) << "of who is gone";
}

}  // namespace
}  // namespace towpath::kv
