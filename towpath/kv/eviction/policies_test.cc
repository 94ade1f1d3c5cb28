#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include <towpath/kv/eviction/naive_policies_fixture.h>
#include <towpath/kv/eviction/policy.h>
#include <towpath/kv/eviction/shadow_cache.h>

namespace towpath::kv {
namespace {

/// Plays a random life of a cache, with pins and drops, and hands each victim to `check`.
struct PolicyLife {
  explicit PolicyLife(std::uint64_t seed) : random(seed) {}

  static constexpr SlotId kSlots = 40;
  static constexpr BlockHash kHashes = 120;

  /// Block h stands on (h - 1) / 3: a forest whose roots are used most.
  CachedBlock any_block() {
    const BlockHash hash = std::min(random() % kHashes, random() % kHashes);
    return {hash, hash < 3 ? std::nullopt : std::optional<BlockHash>((hash - 1) / 3)};
  }

  template <typename Check>
  void step(std::span<EvictionPolicy* const> policies, const Check& check) {
    const CachedBlock block = any_block();
    if (const auto known = slot_of.find(block.hash); known != slot_of.end()) {
      const SlotId slot = known->second;
      switch (random() % 8) {
        case 0: pinned.insert(slot); break;
        case 1: pinned.erase(slot); break;
        case 2: leave(policies, slot); break;
        default:
          for (EvictionPolicy* policy : policies) policy->touch(slot);
      }
      return;
    }
    if (pinned.size() > kSlots / 2) pinned.clear();
    if (slot_of.size() == kSlots) leave(policies, check());
    SlotId slot = 0;
    while (hash_in.contains(slot)) ++slot;
    slot_of[block.hash] = slot;
    hash_in[slot] = block.hash;
    for (EvictionPolicy* policy : policies) policy->insert(slot, block);
  }

  void leave(std::span<EvictionPolicy* const> policies, SlotId slot) {
    for (EvictionPolicy* policy : policies) policy->remove(slot);
    pinned.erase(slot);
    slot_of.erase(hash_in[slot]);
    hash_in.erase(slot);
  }

  bool may_go(SlotId slot) const { return !pinned.contains(slot); }

  std::mt19937_64 random;
  std::map<BlockHash, SlotId> slot_of;
  std::map<SlotId, BlockHash> hash_in;
  std::set<SlotId> pinned;
};

class PoliciesTest : public ::testing::TestWithParam<PolicyKind> {};

// The kinds that follow a rule which can be written naively; those that learn from what they see
// have tests of their own.
class ModelledPoliciesTest : public PoliciesTest {};

TEST_P(ModelledPoliciesTest, chooses_as_a_naive_model_of_itself_does) {
  const auto real = make_policy(GetParam(), PolicyLife::kSlots);
  const auto naive = testing::make_naive(GetParam(), PolicyLife::kSlots);
  PolicyLife life(7);
  const std::array<EvictionPolicy*, 2> both{real.get(), naive.get()};
  for (int step = 0; step < 15'000; ++step) {
    life.step(both, [&] {
      const auto may_go = [&](SlotId slot) { return life.may_go(slot); };
      const auto victim = real->victim(may_go);
      EXPECT_EQ(victim, naive->victim(may_go)) << "step " << step;
      return *victim;
    });
    ASSERT_FALSE(HasFailure());
  }
}

TEST_P(PoliciesTest, gives_up_what_may_go_and_nothing_when_all_is_pinned) {
  const auto policy = make_policy(GetParam(), PolicyLife::kSlots);
  PolicyLife life(11);
  const std::array<EvictionPolicy*, 1> alone{policy.get()};
  for (int step = 0; step < 10'000; ++step) {
    life.step(alone, [&] {
      EXPECT_EQ(policy->victim([](SlotId) { return false; }), std::nullopt);
      const auto victim = policy->victim([&](SlotId slot) { return life.may_go(slot); });
      EXPECT_TRUE(victim && life.may_go(*victim) && life.hash_in.contains(*victim)) << step;
      return *victim;
    });
    ASSERT_FALSE(HasFailure());
  }
}

TEST_P(PoliciesTest, is_found_by_its_name) {
  EXPECT_EQ(*policy_named(name_of(GetParam())), GetParam());
  EXPECT_EQ(policy_named("mru").code(), Code::invalid_argument);
}

TEST_P(PoliciesTest, serves_a_pool_of_one_slot) {
  const auto policy = make_policy(GetParam(), 1);
  for (BlockHash hash = 0; hash < 100; ++hash) {
    policy->insert(0, {hash, std::nullopt});
    policy->touch(0);
    ASSERT_EQ(policy->victim([](SlotId) { return true; }), SlotId{0});
    policy->remove(0);
  }
}

std::string name_of_test(const ::testing::TestParamInfo<PolicyKind>& kind) {
  std::string name(name_of(kind.param));
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(all, PoliciesTest,
                         ::testing::ValuesIn(all_policies().begin(), all_policies().end()),
                         name_of_test);
INSTANTIATE_TEST_SUITE_P(ruled, ModelledPoliciesTest, ::testing::ValuesIn(testing::kNaiveKinds),
                         name_of_test);

// Among two prompts' ends, the older goes; what others stand on stays whatever its age.
TEST(LineageTest, chains_are_given_up_from_their_ends) {
  const auto policy = make_policy(PolicyKind::lineage, 8);
  policy->insert(2, {30, 20});  // before its parent
  policy->insert(0, {10, std::nullopt});
  policy->insert(1, {20, 10});
  policy->insert(3, {40, std::nullopt});
  for (const SlotId expected : {2U, 1U, 0U, 3U}) {
    EXPECT_EQ(policy->victim([](SlotId) { return true; }), expected);
    policy->remove(expected);
  }
}

TEST(HitDensityTest, of_two_equally_old_the_end_of_the_chain_goes) {
  const auto policy = make_policy(PolicyKind::hit_density, 80);
  policy->insert(0, {1, std::nullopt});
  policy->insert(1, {2, 1});
  EXPECT_EQ(policy->victim([](SlotId) { return true; }), SlotId{1});
}

TEST(ShadowCacheTest, a_prompt_counts_from_the_first_block_that_is_asked_for_to_the_first_miss) {
  ShadowCache cache(5, make_policy(PolicyKind::lru, 5));
  const CachedBlock first{1, std::nullopt}, second{2, 1}, third{3, 2}, fourth{4, 3};
  for (const CachedBlock& block : {first, second, third}) EXPECT_FALSE(cache.use(block));
  for (const CachedBlock& block : {first, second, third}) EXPECT_TRUE(cache.use(block));
  EXPECT_FALSE(cache.use(fourth));
  // An engine that has the first block asks for the others.
  for (const CachedBlock& block : {second, third, fourth}) EXPECT_TRUE(cache.use(block));
  EXPECT_TRUE(cache.use(first));
  EXPECT_FALSE(cache.use({12, 1}));
  EXPECT_FALSE(cache.use({4, 12})) << "it is here, behind one that is not";
}

TEST(AdaptiveTest, follows_whoever_does_best_and_changes_its_mind) {
  constexpr SlotId kSlots = 200;
  ShadowCache adaptive(kSlots, make_policy(PolicyKind::adaptive, kSlots));
  ShadowCache lru(kSlots, make_policy(PolicyKind::lru, kSlots));
  ShadowCache s3_fifo(kSlots, make_policy(PolicyKind::s3_fifo, kSlots));
  std::mt19937_64 random(5);
  struct {
    int adaptive = 0, lru = 0, s3_fifo = 0;
  } hits;
  const auto use = [&](BlockHash hash) {
    hits.adaptive += adaptive.use({hash, std::nullopt}) ? 1 : 0;
    hits.lru += lru.use({hash, std::nullopt}) ? 1 : 0;
    hits.s3_fifo += s3_fifo.use({hash, std::nullopt}) ? 1 : 0;
  };
  // First a few that return between many that never do: LRU forgets them.
  for (BlockHash i = 0; i < 60'000; ++i) use(i % 4 == 0 ? random() % 150 : 1'000'000 + i);
  EXPECT_GT(hits.adaptive, 2 * hits.lru);
  EXPECT_GT(hits.adaptive, hits.s3_fifo * 95 / 100);
  // Then a window that wanders, in which all is used again soon: LRU knows it.
  hits = {};
  for (BlockHash i = 0; i < 60'000; ++i) use(2'000'000 + i / 4 - random() % 150);
  EXPECT_GT(hits.adaptive, hits.lru * 95 / 100);
}

}  // namespace
}  // namespace towpath::kv
