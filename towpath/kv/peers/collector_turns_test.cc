// Whose blocks a BlockCollector takes first, from a tier that is a test's; and to whom a
// BlockLessor grants them.
#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include <gmock/gmock.h>

#include <towpath/kv/peers/block_collector.h>
#include <towpath/kv/peers/block_lessor.h>
#include <towpath/kv/tiers/cache_fixture.h>
#include <towpath/kv/tiers/memory_tier_fixture.h>

namespace towpath::kv {
namespace {

constexpr TierIndex kOfPeers = 2;
constexpr TenantId kGreedy = 666, kModest = 7000;

struct CollectorTurnsTest : testing::CacheFixture {
  void open_with_peers(const TieredCacheOptions& options, std::size_t most_wanted) {
    auto tier = std::make_unique<testing::MemoryTier>(kOfPeers, 64);
    tier_ = tier.get();
    tier_->on_begin = [this](const TierTask& task) {
      if (task.kind == TierTask::Kind::get) taken_.push_back(task.hash);
    };
    others_.push_back(std::move(tier));
    open(options, {.slots = 64});
    tier_->block_directory = block_directory_.get();
    (void)block_directory_->take_events();
    collector_.emplace(
        BlockCollector::Options{.clock = &clock_,
                                .block_directory = block_directory_.get(),
                                .peers = kOfPeers,
                                .owners_of = [this](BlockHash hash) { return owners_[hash]; },
                                .batch_blocks = 4,
                                .most_wanted = most_wanted},
        *cache_);
  }
  /// A peer has blocks [first, first + count).
  void report(BlockHash first, BlockHash count, TenantId tenant) {
    for (BlockHash hash = first; hash < first + count; ++hash) {
      Bytes bytes = content(hash);
      tier_->blocks[hash] = {digest_of(bytes, hash), std::move(bytes)};
      block_directory_->add(hash, kOfPeers, {}, tenant);
    }
    collector_->note(block_directory_->take_events());
  }
  void take_all() {
    for (int idle = 0; idle < 3; ++idle)
      while (collector_->progress() || cache_->progress()) idle = 0;
  }

  testing::MemoryTier* tier_ = nullptr;
  std::map<BlockHash, std::string> owners_;  // of others, all are one's
  std::optional<BlockCollector> collector_;
  std::vector<BlockHash> taken_;
};

TEST_F(CollectorTurnsTest, a_tenant_does_not_wait_behind_all_that_another_has) {
  open_with_peers({}, 1000);
  report(1000, 40, kGreedy);
  report(1, 3, kModest);
  take_all();
  ASSERT_EQ(taken_.size(), 43U);
  std::vector<BlockHash> first(taken_.begin(), taken_.begin() + 6);
  std::ranges::sort(first);
  EXPECT_THAT(first, ::testing::ElementsAre(1, 2, 3, ::testing::_, ::testing::_, ::testing::_));
}

TEST_F(CollectorTurnsTest, nor_is_it_refused_for_another_fills_the_queue) {
  open_with_peers({}, 10);
  report(1000, 40, kGreedy);
  report(1, 3, kModest);
  EXPECT_EQ(collector_->figures().refused, 30U);
  take_all();
  EXPECT_THAT(taken_, ::testing::IsSupersetOf({BlockHash{1}, BlockHash{2}, BlockHash{3}}));
}

TEST_F(CollectorTurnsTest, nor_while_another_has_all_its_share_in_use) {
  open_with_peers({.quota_percent = 10}, 1000);
  report(1000, 6, kGreedy);
  take_all();
  std::vector<BlockRef> held;
  for (BlockHash hash = 1000; hash < 1006; ++hash) held.push_back(cache_->find(hash));
  report(1006, 10, kGreedy);
  report(1, 3, kModest);
  take_all();
  for (BlockHash hash = 1; hash <= 3; ++hash) EXPECT_TRUE(cache_->find(hash)) << hash;
  EXPECT_FALSE(cache_->find(1006));
  held.clear();
  clock_.advance(std::chrono::seconds(1));
  take_all();
  EXPECT_TRUE(cache_->find(1015)) << "it is taken when there is room";
}

TEST_F(CollectorTurnsTest, a_peer_that_is_stopped_keeps_no_other_waiting) {
  open_with_peers({}, 1000);
  tier_->is_slow = true;
  for (BlockHash hash = 1; hash <= 3; ++hash) owners_[hash] = "another";
  report(1000, 40, kGreedy);
  take_all();
  report(1, 1, kGreedy);
  take_all();
  ASSERT_EQ(tier_->under_way.size(), 9U) << "two batches of the one, and what the other has";
  EXPECT_EQ(taken_.back(), 1U);
  tier_->let_go(8);
  take_all();
  EXPECT_EQ(collector_->figures().collected, 1U);
  report(2, 2, kModest);
  take_all();
  EXPECT_EQ(tier_->under_way.size(), 8U + 2U);
  tier_->is_slow = false;
  take_all();
  EXPECT_EQ(collector_->figures().collected, 43U);
}

TEST_F(CollectorTurnsTest, what_another_peer_would_be_asked_for_by_now_waits_with_its_blocks) {
  open_with_peers({}, 1000);
  tier_->is_slow = true;
  report(1000, 12, kGreedy);
  take_all();
  ASSERT_EQ(tier_->under_way.size(), 8U);
  for (BlockHash hash = 1000; hash < 1012; ++hash) owners_[hash] = "another";
  tier_->let_go(0);
  take_all();
  EXPECT_EQ(tier_->under_way.size(), 7U) << "the batch has not ended";
  for (int left = 0; left < 3; ++left) tier_->let_go(0);
  take_all();
  EXPECT_EQ(tier_->under_way.size(), 8U) << "four of the first, and four of the other";
  owners_.clear();
  tier_->is_slow = false;
  take_all();
  EXPECT_EQ(collector_->figures().collected, 12U);
}

TEST_F(CollectorTurnsTest, a_lessee_that_keeps_all_it_was_granted_leaves_room_for_another) {
  open();
  make_all(1, 5);
  BlockLessor lessor({.clock = &clock_,
                      .block_directory = block_directory_.get(),
                      .most_blocks = 5,
                      .most_of_a_lessee = 3},
                     *cache_);
  const auto answer_to = [&](const AgentIdentity& lessee, const PeerMessage& ask) {
    lessor.ask(lessee, ask);
    (void)cache_->progress();
    return lessor.take_answers().at(0).message;
  };
  const AgentIdentity stopped{"stopped", 1}, other{"other", 2};
  const PeerMessage all{.session = 1, .hashes = {1, 2, 3, 4}};
  const PeerMessage some = answer_to(stopped, all);
  EXPECT_EQ(some.granted.size(), 3U);
  EXPECT_THAT(some.not_now, ::testing::ElementsAre(4U));
  EXPECT_TRUE(answer_to(stopped, {.session = 2, .hashes = {5}}).granted.empty());
  EXPECT_EQ(answer_to(other, all).granted.size(), 2U) << "what is left of all";
  lessor.release(stopped, 1);
  EXPECT_EQ(answer_to(stopped, {.session = 3, .hashes = {5}}).granted.size(), 1U);
}

}  // namespace
}  // namespace towpath::kv
