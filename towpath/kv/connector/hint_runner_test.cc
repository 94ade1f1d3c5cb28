#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/kv/connector/hint_runner.h>
#include <towpath/kv/tiers/cache_fixture.h>
#include <towpath/kv/tiers/memory_tier_fixture.h>

namespace towpath::kv {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t kHeldByHints = 4;  // of eight slots

class HintRunnerTest : public testing::CacheFixture {
 protected:
  void open_hints(const TieredCacheOptions& options = {}, bool has_peers = false) {
    open(options);
    hints_.emplace(HintRunner::Options{.clock = &clock_,
                                       .block_directory = block_directory_.get(),
                                       .below = 1U << 1U,
                                       .has_peers = has_peers,
                                       .most_held = kHeldByHints},
                   *cache_);
  }
  void TearDown() override { hints_.reset(); }

  static std::vector<BlockHash> blocks(BlockHash from, BlockHash to) {
    std::vector<BlockHash> all;
    for (BlockHash hash = from; hash <= to; ++hash) all.push_back(hash);
    return all;
  }
  /// Until it is answered; time passes, by a millisecond for each look.
  HintAnswer ask(HintAction action, BlockHash from, BlockHash to, Duration keep = seconds(60),
                 Duration after = {}) {
    hints_->take({.action = action, .after = after, .keep = keep, .blocks = blocks(from, to)});
    return answer();
  }
  /// Of blocks 1 and 2, by a session: for how many it was done.
  std::uint64_t say(HintAction action, std::uint64_t session, Duration keep) {
    hints_->take({.action = action, .keep = keep, .blocks = blocks(1, 2), .session = session});
    return answer().blocks;
  }
  HintAnswer answer() {
    for (int looks = 0; looks < 100'000; ++looks) {
      auto answers = hints_->take_answers();
      if (!answers.empty()) return answers.front();
      drive(1);
    }
    ADD_FAILURE() << "a hint was not answered";
    return {};
  }
  void drive(int looks) {
    for (; looks > 0; --looks) {
      clock_.advance(std::chrono::milliseconds(1));
      (void)cache_->progress();
      (void)hints_->progress();
    }
  }
  bool is_in_memory(BlockHash hash) const { return (block_directory_->tiers_of(hash) & 1U) != 0; }
  /// In files alone.
  void make_below(BlockHash from, BlockHash to) {
    make_all(from, to);
    ASSERT_TRUE(cache_->flush().ok());
    evict_all();
  }

  /// Blocks from .. to in a tier that says `refuse` of its first `times` reads of each.
  void make_in_refusing_tier(BlockHash from, BlockHash to, int times) {
    auto tier = std::make_unique<testing::MemoryTier>(TierIndex{2});
    testing::MemoryTier& refusing = *tier;
    others_.push_back(std::move(tier));
    open_hints();
    refusing.block_directory = block_directory_.get();
    for (const BlockHash hash : blocks(from, to)) {
      refusing.blocks[hash] = {digest_of(content(hash), 5), content(hash)};
      block_directory_->add(hash, refusing.index());
    }
    refusing.refuse = [this, times](const TierTask& task) -> Status {
      if (reads_[task.hash]++ >= times) return {};
      return error(Code::exhausted, "not now");
    };
  }

  std::optional<HintRunner> hints_;
  std::map<BlockHash, int> reads_;
};

TEST_F(HintRunnerTest, what_is_prefetched_is_in_memory_when_it_is_wanted) {
  open_hints();
  make_below(1, 3);
  const HintAnswer said = ask(HintAction::prefetch, 1, 3);
  EXPECT_EQ(said.outcome, HintOutcome::accepted) << said.why;
  EXPECT_EQ(said.blocks, 3U);
  for (const BlockHash hash : blocks(1, 3)) expect_right(cache_->find(hash), hash);
  EXPECT_EQ(hints_->held(), 0U);
}

TEST_F(HintRunnerTest, a_hint_waits_for_its_time) {
  open_hints();
  make_below(1, 2);
  hints_->take({.action = HintAction::prefetch, .after = seconds(5), .blocks = blocks(1, 2)});
  drive(4900);
  EXPECT_FALSE(is_in_memory(1));
  EXPECT_TRUE(hints_->is_idle());
  EXPECT_EQ(answer().blocks, 2U);
  EXPECT_TRUE(is_in_memory(1));
}

TEST_F(HintRunnerTest, what_is_pinned_is_not_evicted_until_its_time_is_over) {
  open_hints();
  make_below(1, 2);
  EXPECT_EQ(ask(HintAction::pin, 1, 2, seconds(10)).outcome, HintOutcome::accepted);
  make_all(11, 40);  // many times the memory
  EXPECT_TRUE(is_in_memory(1) && is_in_memory(2));
  drive(10'100);
  EXPECT_EQ(hints_->held(), 0U);
  make_all(51, 80);
  EXPECT_FALSE(is_in_memory(1) || is_in_memory(2));
}

TEST_F(HintRunnerTest, a_pin_ends_when_that_is_said) {
  open_hints();
  make_all(1, 2);
  EXPECT_EQ(ask(HintAction::pin, 1, 2).outcome, HintOutcome::accepted);
  EXPECT_EQ(hints_->held(), 2U);
  EXPECT_EQ(ask(HintAction::pin, 1, 2, {}).outcome, HintOutcome::accepted);
  EXPECT_EQ(hints_->held(), 0U);
}

TEST_F(HintRunnerTest, what_one_session_lets_go_of_or_demotes_others_hold) {
  open_hints();
  make_all(1, 2);
  EXPECT_EQ(say(HintAction::retain, 1, seconds(60)), 2U);
  EXPECT_EQ(say(HintAction::retain, 2, seconds(60)), 2U);
  EXPECT_EQ(say(HintAction::retain, 1, {}), 2U);
  EXPECT_EQ(say(HintAction::demote, 3, {}), 2U);
  EXPECT_EQ(say(HintAction::demote, 0, {}), 2U) << "no session in particular";
  EXPECT_EQ(hints_->held(), 2U);
  make_all(11, 40);
  EXPECT_TRUE(is_in_memory(1) && is_in_memory(2));
  EXPECT_EQ(say(HintAction::demote, 2, {}), 2U);
  EXPECT_EQ(hints_->held(), 0U);
  make_all(51, 80);
  EXPECT_FALSE(is_in_memory(1) || is_in_memory(2));
}

TEST_F(HintRunnerTest, block_is_held_until_the_last_session_s_time_is_over) {
  open_hints();
  make_all(1, 2);
  EXPECT_EQ(say(HintAction::retain, 1, seconds(3)), 2U);
  EXPECT_EQ(say(HintAction::retain, 2, seconds(9)), 2U);
  drive(5'000);
  EXPECT_EQ(hints_->held(), 2U);
  EXPECT_EQ(say(HintAction::retain, 1, {}), 2U) << "its time is over, and the other's is not";
  EXPECT_EQ(hints_->held(), 2U);
  drive(5'000);
  EXPECT_EQ(hints_->held(), 0U);
}

TEST_F(HintRunnerTest, sessions_of_a_block_are_bounded_and_hold_it_nevertheless) {
  open_hints();
  make_all(1, 2);
  for (std::uint64_t session = 1; session <= 70; ++session)
    EXPECT_EQ(say(HintAction::retain, session, seconds(60)), 2U);
  for (std::uint64_t session = 1; session <= 70; ++session)
    EXPECT_EQ(say(HintAction::retain, session, {}), 2U);
  EXPECT_EQ(hints_->held(), 2U) << "the last of them let go of what was not theirs alone";
  EXPECT_EQ(say(HintAction::retain, 0, {}), 2U);
  EXPECT_EQ(hints_->held(), 0U);
}

TEST_F(HintRunnerTest, hints_have_a_share_of_the_memory_and_no_more) {
  open_hints();
  make_below(1, 8);
  const HintAnswer first = ask(HintAction::pin, 1, 6);
  EXPECT_EQ(first.outcome, HintOutcome::clipped);
  EXPECT_EQ(first.blocks, kHeldByHints);
  EXPECT_EQ(first.left, 2U);
  EXPECT_THAT(first.why, HasSubstr("at most 4"));
  for (const BlockHash hash : blocks(1, 4)) EXPECT_TRUE(is_in_memory(hash)) << hash;
  const HintAnswer second = ask(HintAction::pin, 7, 8);
  EXPECT_EQ(second.outcome, HintOutcome::rejected);
  EXPECT_EQ(ask(HintAction::pin, 1, 4, seconds(90)).outcome, HintOutcome::accepted)
      << "they are held";
  EXPECT_EQ(ask(HintAction::prefetch, 1, 8).outcome, HintOutcome::clipped);
  EXPECT_TRUE(make(99)) << "others find a slot";
}

TEST_F(HintRunnerTest, hint_that_finds_no_slot_says_so_and_blames_no_share) {
  open_hints();
  make_below(1, 2);
  std::vector<BlockRef> held;
  for (BlockHash hash = 11; hash <= 18; ++hash) held.push_back(make(hash));
  const HintAnswer none = ask(HintAction::prefetch, 1, 2);
  EXPECT_EQ(none.outcome, HintOutcome::rejected);
  EXPECT_THAT(none.why, AllOf(HasSubstr("slot"), Not(HasSubstr("hints hold"))));
  held.pop_back();
  const HintAnswer one = ask(HintAction::pin, 1, 2);
  EXPECT_EQ(one.outcome, HintOutcome::clipped);
  EXPECT_EQ(one.blocks, 1U);
  EXPECT_THAT(one.why, Not(HasSubstr("hints hold")));
}

TEST_F(HintRunnerTest, block_that_cannot_be_had_now_is_asked_for_again_and_stops_no_other) {
  make_in_refusing_tier(1, 3, 2);
  make_all(4, 4);
  const HintAnswer said = ask(HintAction::prefetch, 1, 4);
  EXPECT_EQ(said.outcome, HintOutcome::accepted) << said.why;
  EXPECT_EQ(said.blocks, 4U);
  for (const BlockHash hash : blocks(1, 3)) EXPECT_EQ(reads_[hash], 3) << hash;
}

TEST_F(HintRunnerTest, block_that_was_refused_and_is_made_meanwhile_is_done) {
  make_in_refusing_tier(1, 1, 1'000'000);
  hints_->take({.action = HintAction::prefetch, .blocks = blocks(1, 1)});
  drive(5);
  ASSERT_GT(reads_[1], 0);
  const BlockRef made = make(1);
  const HintAnswer said = answer();
  EXPECT_EQ(said.outcome, HintOutcome::accepted) << said.why;
  EXPECT_EQ(said.blocks, 1U);
}

TEST_F(HintRunnerTest, block_that_cannot_be_had_in_time_is_left_with_why) {
  make_in_refusing_tier(1, 2, 1'000'000);
  make_all(3, 4);
  const HintAnswer said = ask(HintAction::prefetch, 1, 4);
  EXPECT_EQ(said.outcome, HintOutcome::clipped);
  EXPECT_EQ(said.blocks, 2U);
  EXPECT_THAT(said.why, HasSubstr("not now"));
  EXPECT_LE(reads_[1], 30) << "it is not asked at each look";
  EXPECT_EQ(ask(HintAction::pin, 1, 2).outcome, HintOutcome::rejected);
}

TEST_F(HintRunnerTest, what_too_many_wait_before_is_left_with_why) {
  open_hints({.most_waiting_promotions = 1});
  make_below(1, 3);
  (void)make(1);
  const HintAnswer said = ask(HintAction::prefetch, 1, 3);
  EXPECT_EQ(said.outcome, HintOutcome::clipped);
  EXPECT_EQ(said.blocks, 1U);
  EXPECT_EQ(said.left, 2U);
  EXPECT_THAT(said.why, HasSubstr("wait already"));
}

TEST_F(HintRunnerTest, what_is_retained_stays_and_nothing_is_brought_for_it) {
  open_hints();
  make_below(1, 2);
  make_all(3, 4);
  const HintAnswer said = ask(HintAction::retain, 1, 4);
  EXPECT_EQ(said.outcome, HintOutcome::accepted);
  EXPECT_EQ(said.blocks, 2U);
  EXPECT_EQ(said.left, 2U);
  make_all(11, 40);
  EXPECT_TRUE(is_in_memory(3) && is_in_memory(4));
  EXPECT_FALSE(is_in_memory(1));
}

TEST_F(HintRunnerTest, what_is_demoted_is_below_and_leaves_memory_first) {
  TieredCacheOptions options;
  options.admission.min_accesses = 3;  // which a hint goes before
  open_hints(options);
  make_all(1, 6);
  const HintAnswer said = ask(HintAction::demote, 4, 6);
  EXPECT_EQ(said.outcome, HintOutcome::accepted) << said.why;
  EXPECT_EQ(said.blocks, 3U);
  make_all(11, 15);  // of eight slots two were free
  for (const BlockHash hash : blocks(1, 3)) EXPECT_TRUE(is_in_memory(hash)) << "though older";
  for (const BlockHash hash : blocks(4, 6)) {
    EXPECT_FALSE(is_in_memory(hash));
    EXPECT_TRUE(promote(hash).ok());
  }
}

TEST_F(HintRunnerTest, what_is_being_saved_is_waited_for_a_little) {
  open_hints();
  hints_->take({.action = HintAction::retain, .keep = seconds(60), .blocks = blocks(1, 2)});
  drive(100);
  make_all(1, 1);
  drive(100);
  EXPECT_EQ(hints_->held(), 1U);
  const HintAnswer said = answer();
  EXPECT_EQ(said.blocks, 1U);
  EXPECT_EQ(said.left, 1U);
}

TEST_F(HintRunnerTest, what_cannot_be_done_is_rejected_with_why) {
  open_hints();
  EXPECT_THAT(ask(HintAction::share, 1, 2).why, HasSubstr("no peers"));
  EXPECT_THAT(ask(HintAction::pin, 1, 2).why, HasSubstr("not kept"));
  hints_->take({.action = HintAction::pin});
  EXPECT_THAT(answer().why, HasSubstr("no whole block"));
  hints_.emplace(HintRunner::Options{.clock = &clock_, .block_directory = block_directory_.get()},
                 *cache_);
  make_all(1, 2);
  EXPECT_EQ(ask(HintAction::demote, 1, 2).outcome, HintOutcome::accepted) << "memory alone";
  open_hints({}, true);
  make_all(1, 2);
  EXPECT_EQ(ask(HintAction::share, 1, 2).outcome, HintOutcome::accepted);
  EXPECT_EQ(hints_->held(), 2U);
}

}  // namespace
}  // namespace towpath::kv
