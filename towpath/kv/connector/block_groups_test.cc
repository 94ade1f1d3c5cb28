// Engines of unlike layers: what is matched, ordered and kept of each group; and an engine of
// chance that frees what a window has passed, and loses what others evict.
#include <map>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/core/clock.h>
#include <towpath/kv/connector/scheduler.h>

namespace towpath::kv {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using GroupKind = BlockGroup::Kind;
using GroupTable = std::vector<std::uint64_t>;

constexpr std::uint64_t kTokens = 4, kNull = 0;

TEST(BlockGroupTest, what_is_needed_to_go_on) {
  const BlockGroup whole{}, window{GroupKind::window, 5}, one{GroupKind::window, 4},
      state{GroupKind::state};
  EXPECT_EQ(whole.first_needed(9, 4), 0U);
  EXPECT_EQ(window.first_needed(9, 4), 7U);
  EXPECT_EQ(one.first_needed(9, 4), 8U);
  EXPECT_EQ(state.first_needed(9, 4), 8U);
  EXPECT_EQ(window.first_needed(1, 4), 0U);
  EXPECT_EQ(state.first_needed(0, 4), 0U);
  const BlockGroup endless{GroupKind::window, UINT64_MAX};
  EXPECT_EQ(endless.first_needed(9, 4), 0U);
}

class BlockGroupsTest : public ::testing::Test {
 protected:
  static ConnectorSchedulerOptions options(std::vector<BlockGroup> groups) {
    return {.tokens_per_block = kTokens,
            .background_from_tokens = 1,
            .saves_in_background = true,
            .groups = std::move(groups),
            .null_block = kNull};
  }
  static std::vector<TokenId> tokens(std::size_t count) {
    std::vector<TokenId> all(count);
    for (std::size_t i = 0; i < count; ++i) all[i] = static_cast<TokenId>(i * 7 + 1);
    return all;
  }
  /// Computes all tokens in one step, and gives what was to be saved of it.
  static std::vector<BlockOrder> saved(ConnectorScheduler& scheduler,
                                       std::vector<GroupTable> tables, std::uint64_t count) {
    const auto prompt = tokens(count);
    EXPECT_TRUE(scheduler.match({.request = "r", .tokens = prompt}).ok());
    EXPECT_TRUE(scheduler.allocate("r", std::span<const GroupTable>(tables), 0).ok());
    EXPECT_TRUE(scheduler.advance("r", {.computed_before = 0, .computed_after = count}).ok());
    const StepOrders orders = scheduler.build();
    EXPECT_TRUE(scheduler.finish("r").ok());
    return orders.saves.empty() ? std::vector<BlockOrder>{} : orders.saves[0].blocks;
  }
  static std::vector<std::uint64_t> engine_blocks(const std::vector<BlockOrder>& orders) {
    std::vector<std::uint64_t> blocks;
    for (const BlockOrder& order : orders) blocks.push_back(order.block);
    return blocks;
  }
};

TEST_F(BlockGroupsTest, a_step_saves_what_the_engine_has_of_each_group) {
  auto scheduler =
      *ConnectorScheduler::make(options({{}, {GroupKind::window, 5}, {GroupKind::state}}));
  EXPECT_THAT(engine_blocks(saved(scheduler, {{1, 2, 3}, {kNull, 5, 6}, {kNull, kNull, 9}}, 12)),
              ElementsAre(1, 2, 3, 5, 6, 9));
  auto other = *ConnectorScheduler::make(options({{}, {GroupKind::state}}));
  EXPECT_THAT(engine_blocks(saved(other, {{1, 2, 3, 4}, {kNull, kNull, kNull, 9}}, 14)),
              ElementsAre(1, 2, 3))
      << "the step ends in the middle of a block: nobody has the state behind the third";
}

TEST_F(BlockGroupsTest, a_block_stands_on_the_one_before_it_in_its_group) {
  auto scheduler = *ConnectorScheduler::make(options({{}, {GroupKind::window, 5}}));
  const auto orders = saved(scheduler, {{1, 2, 3}, {11, 12, 13}}, 12);
  ASSERT_EQ(orders.size(), 6U);
  for (std::size_t i = 0; i < orders.size(); ++i)
    EXPECT_EQ(orders[i].parent, i % 3 > 0 ? std::optional(orders[i - 1].hash) : std::nullopt) << i;
}

TEST_F(BlockGroupsTest, a_prompt_is_matched_where_all_groups_can_go_on) {
  auto scheduler = *ConnectorScheduler::make(options({{}, {GroupKind::window, 5}}));
  const auto orders = saved(scheduler, {{1, 2, 3, 4, 5, 6}, {11, 12, 13, 14, 15, 16}}, 24);
  ASSERT_EQ(orders.size(), 12U);
  std::vector<BlockHash> stored;
  for (const BlockOrder& order : orders)
    if (order.block != 14) stored.push_back(order.hash);  // of the window, block 3
  ASSERT_TRUE(scheduler.update({.stored = stored}).ok());
  const auto prompt = tokens(25);
  const auto matched = [&](std::size_t count) {
    return scheduler.match({.request = "s", .tokens = std::span(prompt).first(count)})->tokens;
  };
  EXPECT_EQ(matched(25), 24U);
  EXPECT_EQ(matched(24), 12U) << "behind block 4 the window would want block 3";
  EXPECT_EQ(matched(17), 12U);
  EXPECT_EQ(matched(9), 8U);

  ASSERT_EQ(matched(25), 24U);
  const std::vector<GroupTable> tables{{31, 32, 33, 34, 35, 36, 37},
                                       {kNull, kNull, kNull, kNull, 45, 46, 47}};
  ASSERT_TRUE(scheduler.allocate("s", std::span<const GroupTable>(tables), 24).ok());
  const StepOrders step = scheduler.build();
  ASSERT_EQ(step.loads.size(), 1U);
  EXPECT_THAT(engine_blocks(step.loads[0].blocks), ElementsAre(31, 32, 33, 34, 35, 36, 45, 46));
}

TEST_F(BlockGroupsTest, what_is_loaded_sooner_than_computed_ends_where_all_groups_can_go_on) {
  ManualClock clock;
  auto measured = options({{}, {GroupKind::window, 5}});
  measured.clock = &clock;
  auto scheduler = *ConnectorScheduler::make(measured);
  WorkerReport report{.costs = {{.tier = 1, .per_block = std::chrono::seconds(1)}}};
  for (const BlockOrder& order :
       saved(scheduler, {{1, 2, 3, 4, 5, 6}, {11, 12, 13, 14, 15, 16}}, 24)) {
    if (order.block == 14) continue;  // of the window, block 3
    report.stored.push_back(order.hash);
    report.tiers.push_back(order.block == 5 || order.block == 6 ? 1 : 0);
  }
  ASSERT_TRUE(scheduler.update(report).ok());
  scheduler.step_begins(100);
  clock.advance(std::chrono::milliseconds(200));
  scheduler.step_ends();
  EXPECT_EQ(scheduler.match({.request = "s", .tokens = tokens(25)})->tokens, 12U)
      << "the first four blocks are in memory, and behind the fourth the window lacks one";
}

TEST_F(BlockGroupsTest, a_block_that_there_is_none_of_is_not_loaded_into) {
  auto scheduler = *ConnectorScheduler::make(options({{}, {GroupKind::window, 5}}));
  std::vector<BlockHash> stored;
  for (const BlockOrder& order : saved(scheduler, {{1, 2}, {3, 4}}, 8))
    stored.push_back(order.hash);
  ASSERT_TRUE(scheduler.update({.stored = stored}).ok());
  ASSERT_EQ(scheduler.match({.request = "s", .tokens = tokens(9)})->tokens, 8U);
  const std::vector<GroupTable> none{{5, 6, 7}, {kNull, 8, 9}}, one{{5, 6, 7}};
  EXPECT_EQ(scheduler.allocate("s", std::span<const GroupTable>(none), 8).code(),
            Code::invalid_argument);
  EXPECT_EQ(scheduler.allocate("s", std::span<const GroupTable>(one), 8).code(),
            Code::invalid_argument);
  EXPECT_THAT(scheduler.build().loads, IsEmpty());
}

TEST_F(BlockGroupsTest, several_groups_load_in_the_background_alone) {
  auto wrong = options({{}, {GroupKind::window, 5}});
  wrong.background_from_tokens = UINT64_MAX;
  EXPECT_EQ(ConnectorScheduler::make(wrong).code(), Code::invalid_argument);
  EXPECT_EQ(ConnectorScheduler::make(options({})).code(), Code::invalid_argument);
}

/// What a block of the engine, or one that is kept, holds: of which group, behind which tokens.
using Content = std::pair<std::size_t, BlockHash>;

/// An engine that gives blocks of what a window has passed to others at once.
class Engine {
 public:
  Engine(std::vector<BlockGroup> groups, std::uint64_t seed)
      : groups_(groups),
        scheduler_(*ConnectorScheduler::make({.tokens_per_block = kTokens,
                                              .background_from_tokens = 1,
                                              .saves_in_background = true,
                                              .groups = groups,
                                              .null_block = kNull})),
        random_(seed) {}

  /// A prompt that begins as others did: loaded as far as it is kept, and computed in some steps.
  void run_one() {
    const std::string id = std::to_string(++requests_);
    const std::vector<TokenId> tokens = some_prompt();
    const auto hashes = *sequence_hashes({}, tokens, kTokens);
    const std::uint64_t loaded = scheduler_.match({.request = id, .tokens = tokens})->tokens;
    std::vector<GroupTable> tables(groups_.size());
    for (std::size_t group = 0; group < groups_.size(); ++group)
      for (std::uint64_t i = 0; i < loaded / kTokens; ++i)
        tables[group].push_back(is_needed(group, loaded / kTokens, i) ? new_block() : kNull);
    ASSERT_TRUE(scheduler_.allocate(id, std::span<const GroupTable>(tables), loaded).ok());
    load(scheduler_.build());
    check(tables, hashes, loaded);
    hits_ += loaded > 0 ? 1 : 0;
    saved_to_ = 0;
    unsaid_.clear();
    for (std::uint64_t at = loaded; at < tokens.size();)
      at = step(id, tables, hashes, at, tokens.size());
    ASSERT_TRUE(scheduler_.finish(id).ok());
    (void)scheduler_.build();
    forget_some();
  }

  std::uint64_t evictions() const { return evictions_; }
  std::uint64_t hits() const { return hits_; }

 private:
  bool is_needed(std::size_t group, std::uint64_t blocks, std::uint64_t i) const {
    return i >= groups_[group].first_needed(blocks, kTokens);
  }
  std::uint64_t new_block() {
    contents_.push_back({99, random_()});
    return contents_.size();  // 0 is null
  }
  Content& content(std::uint64_t block) { return contents_.at(block - 1); }

  std::vector<TokenId> some_prompt() {
    std::vector<TokenId> tokens;
    const std::size_t length = 1 + random_() % 60;
    TokenId state = 0;
    for (std::size_t i = 0; i < length; ++i)
      tokens.push_back(state =
                           state * 5 + static_cast<TokenId>(i % 8 == 7 ? random_() % 2 : 0) + 1);
    return tokens;
  }

  void load(const StepOrders& orders) {
    for (const RequestOrder& load : orders.loads)
      for (const BlockOrder& order : load.blocks) {
        ASSERT_TRUE(kept_.contains(order.hash));
        content(order.block) = kept_[order.hash];
      }
  }

  /// All that is needed to go on is there, and nothing else was put in its place.
  void check(const std::vector<GroupTable>& tables, const std::vector<BlockHash>& hashes,
             std::uint64_t tokens) {
    for (std::size_t group = 0; group < groups_.size(); ++group)
      for (std::uint64_t i = 0; i < tokens / kTokens; ++i) {
        if (is_needed(group, tokens / kTokens, i)) {
          ASSERT_EQ(content(tables[group][i]), (Content{group, hashes[i]})) << group << " " << i;
        }
      }
  }

  std::uint64_t step(const std::string& id, std::vector<GroupTable>& tables,
                     const std::vector<BlockHash>& hashes, std::uint64_t before,
                     std::uint64_t end) {
    std::uint64_t after = std::min(end, before + 1 + random_() % 20);
    if (after / kTokens > before / kTokens && random_() % 2 == 0) after = after / kTokens * kTokens;
    std::vector<GroupTable> more(groups_.size());
    const std::uint64_t blocks = (after + kTokens - 1) / kTokens;
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      free_passed(tables[group], groups_[group], before);
      for (std::uint64_t i = tables[group].size(); i < blocks; ++i) {
        const bool is_there = groups_[group].kind != GroupKind::state || i + 1 == blocks;
        more[group].push_back(is_there ? new_block() : kNull);
      }
      tables[group].insert(tables[group].end(), more[group].begin(), more[group].end());
      for (std::uint64_t i = before / kTokens; i < blocks; ++i)
        compute(tables[group][i], group, i < hashes.size() ? hashes[i] : 0, i, after);
    }
    if (unsaid_.size() != groups_.size()) unsaid_.resize(groups_.size());
    for (std::size_t group = 0; group < groups_.size(); ++group)
      unsaid_[group].insert(unsaid_[group].end(), more[group].begin(), more[group].end());
    if (random_() % 3 > 0) say(id, {before, after});  // else with a later step: it may be too late
    save(scheduler_.build());
    return after;
  }

  void say(const std::string& id, const StepOfRequest& step) {
    const std::uint64_t whole = step.after / kTokens * kTokens;
    EXPECT_TRUE(scheduler_
                    .advance(id, {.computed_before = saved_to_,
                                  .computed_after = whole,
                                  .new_blocks = std::span<const GroupTable>(unsaid_),
                                  .step = step})
                    .ok());
    saved_to_ = whole;
    unsaid_.clear();
  }

  void free_passed(const GroupTable& table, const BlockGroup& group, std::uint64_t before) {
    if (group.kind == GroupKind::whole) return;
    const std::uint64_t window = group.kind == GroupKind::state ? 1 : group.window_tokens;
    for (std::uint64_t i = 0; i < table.size() && (i + 1) * kTokens + window <= before; ++i)
      if (table[i] != kNull) content(table[i]) = {99, random_()};
  }

  void compute(std::uint64_t block, std::size_t group, BlockHash hash, std::uint64_t i,
               std::uint64_t after) {
    if (block == kNull) return;
    const bool is_right = groups_[group].kind == GroupKind::state ? after == (i + 1) * kTokens
                                                                  : after >= (i + 1) * kTokens;
    content(block) = is_right ? Content{group, hash} : Content{98, random_()};
  }

  void save(const StepOrders& orders) {
    WorkerReport report;
    for (const RequestOrder& save : orders.saves)
      for (const BlockOrder& order : save.blocks) {
        kept_[order.hash] = content(order.block);
        report.stored.push_back(order.hash);
      }
    ASSERT_TRUE(scheduler_.update(report).ok());
  }

  void forget_some() {
    WorkerReport report;
    while (kept_.size() > 60) {
      auto victim = kept_.lower_bound(random_());
      if (victim == kept_.end()) victim = kept_.begin();
      report.lost.push_back(victim->first);
      kept_.erase(victim);
      ++evictions_;
    }
    ASSERT_TRUE(scheduler_.update(report).ok());
  }

  const std::vector<BlockGroup> groups_;
  ConnectorScheduler scheduler_;
  std::mt19937_64 random_;
  std::vector<Content> contents_;
  std::map<BlockHash, Content> kept_;
  // Of the request that runs:
  std::uint64_t saved_to_ = 0;
  std::vector<GroupTable> unsaid_;  // blocks that the scheduler's half has not heard of
  std::uint64_t requests_ = 0, evictions_ = 0, hits_ = 0;
};

TEST(UnlikeLayersTest, nothing_is_restored_in_part_whatever_was_evicted) {
  const std::vector<std::vector<BlockGroup>> models{
      {{}, {GroupKind::window, 5}, {GroupKind::window, 13}},
      {{}, {GroupKind::state}, {GroupKind::state}},
      {{GroupKind::window, 7}},
      {{}, {GroupKind::window, 1}, {GroupKind::state}},
  };
  for (const auto& groups : models) {
    SCOPED_TRACE(groups.size());
    Engine engine(groups, groups.size());
    std::uint64_t requests = 0;
    for (; engine.evictions() < 25'000 && !::testing::Test::HasFailure(); ++requests)
      engine.run_one();
    EXPECT_GT(engine.hits(), requests / 10) << "of " << requests;
  }
}

}  // namespace
}  // namespace towpath::kv
