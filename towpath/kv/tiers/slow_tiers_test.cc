// Tiers that answer later: what a TieredCache has under way with them. The tier is a map, and the
// test says when its tasks end.
#include <gmock/gmock.h>

#include <towpath/kv/tiers/cache_fixture.h>
#include <towpath/kv/tiers/memory_tier_fixture.h>

namespace towpath::kv {
namespace {

using testing::CacheFixture;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::MemoryTier;

class SlowTiersTest : public CacheFixture {
 protected:
  /// A tier that takes three tasks at once, or `depth`, below the disk.
  void open_slow(const TieredCacheOptions& options = {.batch_at_least = 1}, std::size_t depth = 3,
                 const testing::CacheShape& shape = {}) {
    others_.push_back(std::make_unique<MemoryTier>(2, depth));
    slow_ = static_cast<MemoryTier*>(others_.front().get());
    slow_->is_slow = true;
    open(options, shape);
    slow_->block_directory = block_directory_.get();
  }
  /// Blocks that only the slow tier has.
  void put_below(BlockHash from, BlockHash to, bool and_report = true) {
    for (BlockHash hash = from; hash <= to; ++hash) {
      const Bytes bytes = content(hash);
      slow_->blocks[hash] = {digest_of(bytes, 5), bytes};
      if (and_report) (void)block_directory_->add(hash, 2);
    }
  }
  Promotion want(std::vector<BlockHash> hashes, std::uint8_t priority = 50) {
    std::vector<CachedBlock> blocks;
    for (const BlockHash hash : hashes) blocks.push_back({hash, {}});
    return cache_->promote(blocks, priority).value();
  }
  std::vector<BlockHash> under_way() const {
    std::vector<BlockHash> hashes;
    for (const TierTask* task : slow_->under_way) hashes.push_back(task->hash);
    return hashes;
  }

  MemoryTier* slow_ = nullptr;  // the cache's
};

TEST_F(SlowTiersTest, a_tier_has_no_more_under_way_than_it_takes_and_the_rest_waits) {
  open_slow();
  make_all(1, 5);
  (void)cache_->progress();
  EXPECT_THAT(under_way(), ElementsAre(1, 2)) << "a place is left for who reads";
  EXPECT_EQ(cache_->figures().waiting_demotions, 3U);
  EXPECT_TRUE(is_on_disk(1) && is_on_disk(2)) << "other tiers have theirs already";
  EXPECT_FALSE(is_on_disk(3)) << "a block is copied aside once, for all tiers";
  slow_->let_go(1);
  (void)cache_->progress();
  EXPECT_THAT(under_way(), ElementsAre(1, 3));
  EXPECT_EQ(block_directory_->tiers_of(2), 0b111U);
  EXPECT_EQ(block_directory_->tiers_of(1), 0b011U);
  slow_->is_slow = false;
  EXPECT_TRUE(cache_->flush().ok());
  EXPECT_EQ(slow_->blocks.size(), 5U);
  EXPECT_EQ(cache_->figures().below[1].demoted, 5U);
}

TEST_F(SlowTiersTest, a_batch_of_so_many_blocks_and_no_bytes_is_under_way_at_once) {
  open_slow({.batch_blocks = 16, .batch_bytes = 0, .batch_at_least = 1}, 64, {.slots = 16});
  make_all(1, 16);
  (void)cache_->progress();
  EXPECT_EQ(under_way().size(), 16U);
  slow_->is_slow = false;
  EXPECT_TRUE(cache_->flush().ok());
  EXPECT_EQ(slow_->blocks.size(), 16U);
}

// A store that packets do not come back from: each put ends by its timeout alone.
TEST_F(SlowTiersTest, a_tier_that_does_not_answer_holds_up_the_others_once) {
  open_slow();
  slow_->refuse = [](const TierTask&) { return error(Code::timed_out, "a test's"); };
  const auto count_on_disk = [&](BlockHash from, BlockHash to) {
    BlockHash count = 0;
    for (BlockHash hash = from; hash <= to; ++hash) count += is_on_disk(hash) ? 1 : 0;
    return count;
  };
  const auto progress = [&] {
    while (cache_->progress()) {
    }
  };
  make_all(1, 5);
  progress();
  ASSERT_THAT(under_way(), ElementsAre(1, 2));
  EXPECT_EQ(count_on_disk(1, 5), 2U);
  slow_->let_go(0);
  slow_->let_go(0);
  progress();
  EXPECT_EQ(count_on_disk(1, 5), 5U) << "while it rests";
  clock_.advance(std::chrono::seconds(2));
  make_all(6, 9);
  progress();
  EXPECT_THAT(under_way(), ElementsAre(6)) << "one asks whether it answers again";
  EXPECT_EQ(count_on_disk(6, 9), 4U);
  slow_->refuse = [](const TierTask&) { return error(Code::corrupt, "a test's"); };
  slow_->let_go(0);
  make_all(20, 22);
  progress();
  EXPECT_THAT(under_way(), ElementsAre(20)) << "that a block is wrong is no answer";
  slow_->refuse = {};
  slow_->let_go(0);
  progress();
  make_all(10, 12);
  progress();
  EXPECT_THAT(under_way(), ElementsAre(10, 11)) << "it does";
}

TEST_F(SlowTiersTest, a_flush_answers_for_what_it_saw_while_a_block_asks_whether_a_tier_answers) {
  open_slow();
  slow_->refuse = [](const TierTask&) { return error(Code::timed_out, "a test's"); };
  make_all(1, 1);
  (void)cache_->progress();
  slow_->let_go(0);
  (void)cache_->progress();
  slow_->refuse = {};
  clock_.advance(std::chrono::seconds(2));
  make_all(2, 3);
  (void)cache_->progress();
  ASSERT_THAT(under_way(), ElementsAre(2));
  slow_->is_slow = false;
  EXPECT_TRUE(cache_->flush().ok()) << "the failure was before, and the tier rests no more";
}

TEST_F(SlowTiersTest, what_was_begun_is_under_way_before_nothing_is_left_to_do) {
  open_slow();
  put_below(1, 2);
  slow_->is_slow = false;
  slow_->waits_for_company = true;  // as a device that is given many requests together
  Promotion promotion = want({1, 2});
  while (cache_->progress()) {
  }
  EXPECT_TRUE(promotion.ended()) << "a thread would sleep now, and nothing would wake it";
}

TEST_F(SlowTiersTest, blocks_come_up_in_any_order_and_are_reported_in_theirs) {
  open_slow();
  put_below(1, 4);
  Promotion promotion = want({1, 2, 3, 4});
  (void)cache_->progress();
  EXPECT_THAT(under_way(), ElementsAre(1, 2, 3));
  slow_->let_go(2);
  (void)cache_->progress();
  EXPECT_THAT(under_way(), ElementsAre(1, 2, 4)) << "its place is the next one's";
  EXPECT_TRUE(cache_->pool().find(3)) << "it is here";
  EXPECT_EQ(promotion.settled(), 0U) << "and told when those before it are";
  slow_->is_slow = false;
  while (!promotion.ended()) (void)cache_->progress();
  const std::vector<Promoted> came = promotion.take();
  ASSERT_EQ(came.size(), 4U);
  for (BlockHash hash = 1; hash <= 4; ++hash) expect_right(came[hash - 1].block, hash);
}

TEST_F(SlowTiersTest, what_two_want_is_read_once) {
  open_slow();
  put_below(1, 2);
  Promotion first = want({1}), second = want({1, 2}, 90);
  (void)cache_->progress();
  EXPECT_THAT(under_way(), ElementsAre(1, 2));
  slow_->let_go(0);
  slow_->let_go(0);
  (void)cache_->progress();
  (void)cache_->progress();
  EXPECT_THAT(under_way(), IsEmpty());
  ASSERT_TRUE(first.ended() && second.ended());
  expect_right(first.take().front().block, 1);
  expect_right(second.take().front().block, 1);
  EXPECT_EQ(cache_->figures().below[1].promoted, 2U);
}

// The other still gets it, if it can be had at all.
TEST_F(SlowTiersTest, what_one_of_two_gives_up_is_read_for_the_other) {
  open_slow();
  put_below(1, 1);
  std::optional<Promotion> dropped = want({1});
  Promotion wanted = want({1});
  (void)cache_->progress();
  dropped.reset();
  slow_->is_slow = false;
  for (int i = 0; i < 10 && !wanted.ended(); ++i) {
    (void)cache_->progress();
    while (!slow_->under_way.empty()) slow_->let_go(0);
  }
  ASSERT_TRUE(wanted.ended());
  expect_right(wanted.take().front().block, 1);
}

TEST_F(SlowTiersTest, who_is_more_urgent_has_the_next_place) {
  open_slow();
  put_below(1, 9);
  const Promotion patient = want({1, 2, 3, 4, 5});
  (void)cache_->progress();
  const Promotion urgent = want({9}, 90);
  make_all(20, 20);
  slow_->let_go(0);
  (void)cache_->progress();
  EXPECT_THAT(under_way(), ElementsAre(2, 3, 9)) << "nor does anything go down meanwhile";
}

TEST_F(SlowTiersTest, what_is_under_way_is_cancelled_with_its_promotion) {
  open_slow();
  put_below(1, 4);
  std::optional<Promotion> dropped = want({1, 2});
  Promotion kept = want({3});
  (void)cache_->progress();
  EXPECT_THAT(under_way(), ElementsAre(1, 2, 3));
  dropped.reset();
  (void)cache_->progress();
  EXPECT_THAT(under_way(), ElementsAre(3));
  EXPECT_EQ(cache_->figures().cancelled, 2U);
  EXPECT_TRUE(cache_->figures().below[1].failed.empty()) << "nobody wanted them";
  EXPECT_TRUE(cache_->figures().last_failure.ok());
  EXPECT_EQ(cache_->pool().figures().free, 7U) << "their slots are others'";
  slow_->let_go(0);
  (void)cache_->progress();
  EXPECT_TRUE(kept.take().front().status.ok());
}

TEST_F(SlowTiersTest, a_flush_answers_for_demotions_and_not_for_promotions) {
  open_slow();
  slow_->is_slow = false;
  (void)block_directory_->add(1, 2);  // and it is not there
  Promotion promotion = want({1});
  make_all(10, 10);
  const Status flushed = cache_->flush();
  EXPECT_TRUE(flushed.ok()) << flushed.to_string();
  EXPECT_EQ(promotion.take().front().status.code(), Code::not_found);
  EXPECT_TRUE(is_on_disk(10));
}

TEST_F(SlowTiersTest, a_block_that_is_dropped_on_its_way_down_is_in_no_tier) {
  open_slow();
  make_all(1, 1);
  (void)cache_->progress();
  ASSERT_THAT(under_way(), ElementsAre(1));
  cache_->drop(1);
  slow_->let_go(0);
  (void)cache_->progress();
  EXPECT_EQ(block_directory_->tiers_of(1), 0U);
  EXPECT_TRUE(slow_->blocks.empty());
}

TEST_F(SlowTiersTest, a_block_that_is_dropped_on_its_way_up_is_in_no_tier) {
  open_slow();
  put_below(1, 1);
  Promotion promotion = want({1});
  (void)cache_->progress();
  ASSERT_THAT(under_way(), ElementsAre(1));
  cache_->drop(1);
  slow_->refuse = [&](const TierTask&) {
    put_below(1, 1, false);  // as if it had been read before
    return Status();
  };
  slow_->let_go(0);
  (void)cache_->progress();
  ASSERT_TRUE(promotion.ended());
  EXPECT_EQ(promotion.take().front().status.code(), Code::not_found);
  EXPECT_FALSE(cache_->find(1));
  EXPECT_EQ(block_directory_->tiers_of(1), 0U);
}

TEST_F(SlowTiersTest, a_block_is_not_put_twice_while_it_is_on_its_way) {
  open_slow();
  make_all(1, 1);
  (void)cache_->progress();
  (void)cache_->match(std::vector<BlockHash>{1});
  (void)cache_->progress();
  EXPECT_THAT(under_way(), ElementsAre(1));
}

TEST_F(SlowTiersTest, a_cache_that_dies_waits_for_nobody_and_leaves_no_task_behind) {
  open_slow();
  put_below(1, 2);
  make_all(10, 10);
  (void)cache_->progress();
  const Promotion promotion = want({1, 2});
  (void)cache_->progress();
  EXPECT_THAT(under_way(), ElementsAre(10, 1, 2));
  cache_.reset();  // the tier would write to freed memory, which the sanitizer tells
}

TEST_F(SlowTiersTest, what_others_have_put_is_found_by_looking) {
  open_slow();
  put_below(1, 2, false);
  const std::vector<BlockHash> hashes{1, 2, 3};
  EXPECT_EQ(cache_->match(hashes).below, 0U);
  cache_->look(hashes);
  (void)cache_->progress();
  EXPECT_EQ(cache_->looking(), 3U);
  slow_->is_slow = false;
  while (cache_->looking() > 0) (void)cache_->progress();
  EXPECT_EQ(cache_->match(hashes).below, 2U);
  EXPECT_TRUE(promote(2).ok());
  cache_->look(hashes);
  EXPECT_EQ(cache_->looking(), 1U) << "what is known is not asked for again";
}

}  // namespace
}  // namespace towpath::kv
