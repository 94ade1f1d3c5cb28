#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/kv/connector/load_or_compute.h>
#include <towpath/kv/connector/scheduler.h>
#include <towpath/kv/tiers/pace.h>

namespace towpath::kv {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::uint64_t kTokensOfBlock = 16;

/// An engine that computes a block in 8 ms.
LoadOrCompute with_an_engine() {
  LoadOrCompute costs;
  costs.note_step(1'600, milliseconds(800));
  return costs;
}

std::uint64_t chosen(const LoadOrCompute& costs, const std::vector<TierIndex>& tiers,
                     const TierCounts& waiting = {}) {
  return costs.ask({.tiers = tiers, .tokens_per_block = kTokensOfBlock, .waiting = waiting}).blocks;
}

TEST(LoadOrComputeTest, what_was_not_measured_is_loaded) {
  LoadOrCompute costs;
  costs.note_cost(0, {.tier = 1, .per_block = milliseconds(900)});
  EXPECT_EQ(chosen(costs, {1, 1, 1}), 3U) << "what does computing cost?";
  EXPECT_EQ(chosen(with_an_engine(), {1, 1, 1}), 3U) << "what does loading cost?";
  costs.note_step(63, milliseconds(900));
  EXPECT_EQ(costs.computing_per_token(), Duration{0}) << "they generated";
}

TEST(LoadOrComputeTest, the_cheaper_is_chosen_block_by_block_from_the_first_on) {
  LoadOrCompute costs = with_an_engine();
  costs.note_cost(0, {.tier = 0, .per_block = milliseconds(1)});
  costs.note_cost(0, {.tier = 1, .per_block = milliseconds(6)});
  costs.note_cost(0, {.tier = 2, .per_block = milliseconds(20)});
  EXPECT_EQ(chosen(costs, {1, 1, 1, 1}), 4U) << "7 ms for 8";
  EXPECT_EQ(chosen(costs, {2, 2, 2, 2}), 0U) << "21 ms for 8";
  EXPECT_EQ(chosen(costs, {0, 0, 2, 2}), 2U);
  EXPECT_EQ(chosen(costs, {2, 0, 0, 0}), 4U) << "the slow one leads to three that are worth it";
  EXPECT_EQ(chosen(costs, {2, 0, 2, 2}), 0U) << "21 ms and 1 for 16";
  EXPECT_EQ(chosen(costs, {}), 0U);
}

TEST(LoadOrComputeTest, what_others_wait_for_is_waited_for_first) {
  LoadOrCompute costs = with_an_engine();
  costs.note_cost(0, {.tier = 1, .per_block = milliseconds(4)});
  EXPECT_EQ(chosen(costs, {1, 1, 1, 1}, {0, 3}), 4U) << "12 ms and 16 for 32";
  EXPECT_EQ(chosen(costs, {1, 1, 1, 1}, {0, 5}), 0U) << "20 ms and 16 for 32";
  EXPECT_EQ(chosen(costs, {0, 0, 1, 1}, {0, 5}), 2U) << "nobody waits for memory";
}

TEST(LoadOrComputeTest, of_several_workers_the_slowest_counts) {
  LoadOrCompute costs = with_an_engine();
  costs.note_cost(0, {.tier = 1, .per_block = milliseconds(2)});
  costs.note_cost(1, {.tier = 1, .per_block = milliseconds(9)});
  EXPECT_EQ(chosen(costs, {1}), 0U);
  costs.note_cost(1, {.tier = 1, .per_block = milliseconds(3)});
  EXPECT_EQ(chosen(costs, {1}), 1U);
  LoadOrCompute others = with_an_engine();
  others.note_cost(0, {.tier = 1, .per_block = milliseconds(9)});
  others.note_cost(1, {.tier = 1, .per_block = milliseconds(2)});
  EXPECT_EQ(chosen(others, {1}), 0U);
}

TEST(LoadOrComputeTest, what_became_slower_or_faster_is_noticed) {
  LoadOrCompute costs = with_an_engine();
  for (int step = 0; step < 100; ++step) costs.note_step(1'600, milliseconds(80));
  EXPECT_LT(costs.computing_per_token(), microseconds(60));
  EXPECT_GT(costs.computing_per_token(), microseconds(49));
}

/// A tier that brings a block in so long, while an engine's requests come one after the other.
struct Simulation {
  LoadOrCompute costs;
  Pace pace;
  Instant now{0};
  Duration computed;  // a block
  Duration loaded;
  std::vector<TierIndex> tiers = std::vector<TierIndex>(64, 1);

  /// Time to its first token.
  Duration request() {
    const auto answer = costs.ask({.tiers = tiers, .tokens_per_block = kTokensOfBlock});
    costs.note_decision(answer, tiers.size());
    const Instant begun = now;
    pace.begins(answer.blocks, now);
    for (std::uint64_t i = 0; i < answer.blocks; ++i) pace.ends(1, 1, now = now + loaded);
    costs.note_cost(0, {1, pace.per_block()});
    const std::uint64_t tokens = (tiers.size() - answer.blocks) * kTokensOfBlock + kTokensOfBlock;
    const Duration step = computed * static_cast<std::int64_t>(tokens / kTokensOfBlock);
    now = now + step;
    costs.note_step(tokens, step);
    return now - begun;
  }
};

constexpr int kRequests = 1'000;

TEST(LoadOrComputeTest, at_any_speed_of_a_store_a_request_takes_what_the_better_way_takes) {
  constexpr double kBlockBytes = 2 << 20;
  for (const double bytes_per_second : {1e7, 3e7, 1e8, 2e8, 2.6e8, 3e8, 1e9, 5e9}) {
    Simulation all{
        .computed = milliseconds(8),
        .loaded = Duration(static_cast<std::int64_t>(kBlockBytes / bytes_per_second * 1e9))};
    all.costs.note_step(1'600, milliseconds(800));  // of requests that nothing was kept for
    const Duration always_load = all.loaded * 64 + all.computed, always_compute = all.computed * 65;
    Duration sum{0};
    for (int i = 0; i < 3; ++i) (void)all.request();  // it learns
    for (int i = 0; i < kRequests; ++i) sum += all.request();
    const double ratio = static_cast<double>((sum / kRequests).count()) /
                         static_cast<double>(std::min(always_load, always_compute).count());
    EXPECT_LE(ratio, 1.05) << bytes_per_second;
  }
}

TEST(LoadOrComputeTest, an_engine_that_has_only_loaded_computes_some_to_see) {
  LoadOrCompute costs;
  const std::vector<TierIndex> tiers(20, 1);
  std::vector<std::uint64_t> blocks;
  for (int i = 0; i < 18; ++i) {
    costs.note_step(1, milliseconds(5));
    const auto answer = costs.ask({.tiers = tiers, .tokens_per_block = kTokensOfBlock});
    costs.note_decision(answer, tiers.size());
    blocks.push_back(answer.blocks);
  }
  EXPECT_EQ(std::ranges::count(blocks, 20U), 16);
  EXPECT_EQ(std::ranges::count(blocks, 16U), 2) << "64 tokens are left";
}

TEST(LoadOrComputeTest, a_store_that_is_fast_again_is_used_again) {
  Simulation all{.computed = milliseconds(8), .loaded = milliseconds(80)};
  for (int i = 0; i < 12; ++i) (void)all.request();
  EXPECT_EQ(chosen(all.costs, all.tiers), 0U);
  all.loaded = milliseconds(1);
  int requests = 0;
  while (chosen(all.costs, all.tiers) != 64U && requests < kRequests)
    (void)all.request(), ++requests;
  EXPECT_EQ(chosen(all.costs, all.tiers), 64U);
  EXPECT_LT(requests, 64 + 24) << "it looks again at once when it came faster";
}

Instant at(Duration since) { return Instant{0} + since; }

TEST(LoadOrComputeTest, figures_say_what_the_engine_loads_and_not_what_was_matched) {
  auto scheduler = ConnectorScheduler::make({.tokens_per_block = 2}).value();
  const std::vector<TokenId> tokens = {1, 2, 3, 4, 5, 6, 7};
  ASSERT_TRUE(scheduler.update({.stored = sequence_hashes({}, tokens, 2).value()}).ok());
  for (const std::uint64_t loaded : {6, 2, 0}) {
    ASSERT_EQ(scheduler.match({.request = "r", .tokens = tokens})->tokens, 6U);
    ASSERT_TRUE(scheduler.allocate("r", std::vector<std::uint64_t>{7, 8, 9, 10}, loaded).ok());
    ASSERT_TRUE(scheduler.finish("r").ok());
  }
  const ConnectorScheduler::Figures figures = scheduler.figures();
  EXPECT_EQ(figures.loaded_all, 1U);
  EXPECT_EQ(figures.loaded_some, 1U);
  EXPECT_EQ(figures.loaded_none, 1U);
  EXPECT_EQ(figures.tokens_not_loaded, 10U);
}

TEST(PaceTest, it_counts_the_time_in_which_there_was_something_to_do) {
  Pace pace;
  EXPECT_EQ(pace.per_block(), Duration{0});
  pace.begins(1, at(milliseconds(50)));
  pace.ends(1, 0, at(milliseconds(50)));
  EXPECT_EQ(pace.per_block(), Duration{0}) << "nothing came";
  pace.begins(4, at(milliseconds(100)));
  pace.ends(2, 2, at(milliseconds(104)));
  pace.ends(2, 2, at(milliseconds(108)));
  EXPECT_EQ(pace.per_block(), milliseconds(2)) << "four of them, in eight";
  pace.begins(1, at(milliseconds(900)));
  pace.ends(1, 1, at(milliseconds(902)));
  EXPECT_EQ(pace.per_block(), milliseconds(2));
  pace.begins(2, at(milliseconds(950)));
  pace.ends(2, 0, at(milliseconds(955)));
  EXPECT_EQ(pace.per_block(), milliseconds(3)) << "15 ms for five: two did not come";
  for (int i = 1; i < 300; ++i) {
    pace.begins(1, at(milliseconds(1'000 * i)));
    pace.ends(1, 1, at(milliseconds(1'000 * i + 20)));
  }
  EXPECT_GT(pace.per_block(), milliseconds(19)) << "what was long ago is not counted";
}

}  // namespace
}  // namespace towpath::kv
