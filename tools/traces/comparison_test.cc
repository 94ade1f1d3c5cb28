#include "tools/traces/comparison.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>
#include <unistd.h>

#include <towpath/kv/eviction/frequency_sketch.h>
#include <towpath/kv/eviction/ghosts.h>
#include <towpath/kv/eviction/reuse_odds.h>

#include "tools/traces/optimum.h"
#include "tools/traces/trace_generator.h"
#include "tools/traces/trace_reader.h"

namespace towpath::traces {
namespace {

// All that any cache could do: after each use, every set of blocks it may go on with.
std::uint64_t best_of_all(std::span<const kv::BlockHash> uses, kv::SlotId slots) {
  std::map<std::set<kv::BlockHash>, std::uint64_t> reachable{{{}, 0}};
  for (const kv::BlockHash used : uses) {
    std::map<std::set<kv::BlockHash>, std::uint64_t> next;
    const auto reach = [&](const std::set<kv::BlockHash>& kept, std::uint64_t hits) {
      auto& best = next[kept];
      best = std::max(best, hits);
    };
    for (const auto& [kept, hits] : reachable) {
      reach(kept, hits + kept.count(used));
      if (kept.contains(used)) continue;
      std::set<kv::BlockHash> grown = kept;
      grown.insert(used);
      if (grown.size() <= slots) reach(grown, hits);
      for (const kv::BlockHash gone : kept) {
        std::set<kv::BlockHash> swapped = grown;
        swapped.erase(gone);
        reach(swapped, hits);
      }
    }
    reachable = std::move(next);
  }
  std::uint64_t best = 0;
  for (const auto& [kept, hits] : reachable) best = std::max(best, hits);
  return best;
}

TEST(OptimumTest, agrees_with_trying_everything) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<kv::BlockHash> uses(14);
    for (kv::BlockHash& hash : uses) hash = random() % 6;
    for (const kv::SlotId slots : {0U, 1U, 2U, 3U})
      ASSERT_EQ(optimum_hits(uses, slots), best_of_all(uses, slots)) << seed << ", slots " << slots;
  }
}

TEST(FrequencySketchTest, reports_too_much_rather_than_too_little) {
  kv::FrequencySketch sketch(1000);
  std::map<kv::BlockHash, int> truth;
  std::mt19937_64 random(3);
  for (int i = 0; i < 5000; ++i) {
    const kv::BlockHash hash = random() % 700;
    ASSERT_FALSE(sketch.count(hash));
    truth[hash] = std::min(truth[hash] + 1, 15);
  }
  int exact = 0;
  for (const auto& [hash, uses] : truth) {
    ASSERT_GE(sketch.estimate(hash), uses);
    exact += sketch.estimate(hash) == uses ? 1 : 0;
  }
  EXPECT_GT(exact, 650);
  for (int i = 5000; i < 10'000; ++i) sketch.count(1'000'000);
  EXPECT_LE(sketch.estimate(1'000'000), 7) << "halved at ten uses per slot";
}

TEST(GhostsTest, the_oldest_goes_and_one_that_came_back_counts_from_then) {
  kv::Ghosts ghosts(2);
  ghosts.add(1);
  ghosts.add(2);
  ghosts.add(1);  // again: the first entry of 1 is void
  ghosts.add(3);
  EXPECT_TRUE(ghosts.take(1));
  EXPECT_FALSE(ghosts.take(1));
  EXPECT_FALSE(ghosts.take(2));
  EXPECT_TRUE(ghosts.take(3));
}

// Blocks come back after a pause of ten epochs, once, or never: young ones are worth little, those
// whose time has come are worth most, those past it nothing.
TEST(ReuseOddsTest, learns_at_which_age_blocks_come_back) {
  constexpr std::uint64_t kEpoch = 100;
  kv::ReuseOdds odds(4 * kEpoch);
  for (std::uint64_t epoch = 0; epoch < 200; ++epoch) {
    for (std::uint64_t i = 0; i < kEpoch; ++i) {
      const bool again = i % 2 == 0 && epoch >= 10 && epoch / 10 % 2 == 1;
      (void)odds.count(again ? (epoch - 10) * kEpoch + i : epoch * kEpoch + i);
    }
  }
  EXPECT_GT(odds.worth_at(0, 9), 2 * odds.worth_at(0, 1));
  EXPECT_GT(odds.worth_at(0, 9), 5 * odds.worth_at(0, 15));
}

TEST(ReuseOddsTest, before_it_knows_anything_the_old_are_worth_less) {
  const kv::ReuseOdds odds(100);
  for (std::uint64_t age = 1; age < kv::ReuseOdds::kAges; ++age)
    ASSERT_LT(odds.worth_at(0, age), odds.worth_at(0, age - 1)) << age;
}

std::vector<Request> read_all(RequestSource& source) {
  std::vector<Request> requests;
  for (auto next = source.next(); next.ok() && *next; next = source.next())
    requests.push_back(**next);
  return requests;
}

// The adaptive policy needs time to learn, which short traces do not give; nobody beats the
// optimum.
void expect_promises(std::span<const Request> requests, kv::SlotId slots) {
  const Comparison made = compare(requests, kv::all_policies(), slots);
  std::uint64_t best_simple = 0, adaptive = 0;
  for (const Score& score : made.scores) {
    ASSERT_LE(score.hits, made.optimum) << name_of(score.policy) << " at " << slots;
    if (score.policy == kv::PolicyKind::adaptive)
      adaptive = score.hits;
    else if (score.policy != kv::PolicyKind::hit_density)
      best_simple = std::max(best_simple, score.hits);
  }
  EXPECT_GE(static_cast<double>(adaptive), 0.95 * static_cast<double>(best_simple)) << slots;
}

TEST(ComparisonTest, adaptive_is_near_the_best_on_a_generated_trace) {
  TraceGenerator source({.requests = 1500, .seed = 4});
  const auto requests = read_all(source);
  for (const kv::SlotId slots : {300U, 2000U}) expect_promises(requests, slots);
}

TEST(ComparisonTest, adaptive_is_above_the_best_simple_one_on_the_conversation_trace) {
  const std::string path = TOWPATH_SHARED_TRACES "/mooncake-conversation.jsonl";
  if (::access(path.c_str(), R_OK) != 0) GTEST_SKIP() << "no trace beside the checkout: " << path;
  sys::SystemFileSystem files;
  auto reader = TraceReader::open(files, path);
  ASSERT_TRUE(reader.ok()) << reader.status().to_string();
  const auto requests = read_all(**reader);
  constexpr std::array kSome{kv::PolicyKind::s3_fifo, kv::PolicyKind::multi_lru,
                             kv::PolicyKind::adaptive};
  const Comparison made = compare(requests, kSome, 5000);
  for (const Score& score : made.scores) {
    EXPECT_LE(score.hits, made.optimum);
    EXPECT_LE(score.hits, made.scores.back().hits) << name_of(score.policy);
  }
}

/// Of what the optimum has more than LRU, how much hints bring.
double gap_closed(std::span<const Request> requests, kv::SlotId slots) {
  constexpr std::array kLru{kv::PolicyKind::lru};
  const Comparison made = compare(requests, kLru, slots);
  const auto lru = static_cast<double>(made.scores.front().hits);
  const std::uint64_t hinted = std::ranges::max(made.hinted, {}, &Score::hits).hits;
  EXPECT_LE(hinted, made.optimum);
  return (static_cast<double>(hinted) - lru) / (static_cast<double>(made.optimum) - lru);
}

TEST(ComparisonTest, hints_close_half_of_the_gap_on_the_conversation_trace) {
  const std::string path = TOWPATH_SHARED_TRACES "/mooncake-conversation.jsonl";
  if (::access(path.c_str(), R_OK) != 0) GTEST_SKIP() << "no trace beside the checkout: " << path;
  sys::SystemFileSystem files;
  const auto requests = read_all(**TraceReader::open(files, path));
  for (const kv::SlotId slots : {2000U, 5000U, 10000U, 20000U})
    EXPECT_GE(gap_closed(requests, slots), 0.5) << slots;
}

TEST(ComparisonTest, a_session_that_ended_goes_before_one_that_goes_on) {
  std::vector<Request> requests(5);
  requests[0].hash_ids = {1, 2, 3};  // goes on
  requests[1].hash_ids = {4, 5, 6};  // and these end
  requests[2].hash_ids = {7, 8, 9};
  requests[3].hash_ids = {10, 11, 12};
  requests[4].hash_ids = {1, 2, 3, 13};
  EXPECT_EQ(play(requests, kv::PolicyKind::lru, 7).hits, 0U);
  EXPECT_EQ(play_with_hints(requests, kv::PolicyKind::lru, 7).hits, 3U);
}

TEST(ComparisonTest, requests_longer_than_the_cache_are_played_too) {
  std::vector<Request> requests(3);
  for (Request& request : requests) request.hash_ids = {1, 2, 3, 4, 5};
  for (const kv::PolicyKind policy : kv::all_policies())
    EXPECT_EQ(play(requests, policy, 2).hits, 4U) << name_of(policy);
}

}  // namespace
}  // namespace towpath::traces
