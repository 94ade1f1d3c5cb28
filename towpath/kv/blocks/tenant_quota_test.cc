// Tenants that share a pool: what one has pushes out nothing of another's.
#include <map>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/kv/blocks/block_pool.h>
#include <towpath/run/eventually.h>

namespace towpath::kv {
namespace {

constexpr TenantId kFlooding = 666, kOther = 7;

std::unique_ptr<BlockPool> quota_pool(SlotId slots, SlotId most, PolicyKind policy,
                                      BlockDirectory* directory = nullptr) {
  return *BlockPool::make(
      {.slots = slots, .policy = policy, .most_of_a_tenant = most, .block_directory = directory});
}

BlockRef put_for(BlockPool& pool, BlockHash hash, TenantId tenant) {
  auto room = pool.allocate(1, nullptr, tenant);
  if (!room.ok()) return {};
  return *pool.register_block(
      CompleteBlock(std::move(room->front()), {{hash, {}, tenant}, {.value = hash}}));
}

bool has_all(BlockPool& pool, BlockHash first, BlockHash end) {
  for (BlockHash hash = first; hash < end; ++hash)
    if (!pool.find(hash)) return false;
  return true;
}

TEST(TenantQuotaTest, a_flood_pushes_out_nothing_of_anothers_under_any_policy) {
  for (const PolicyKind policy : all_policies()) {
    const auto pool = quota_pool(16, 8, policy);
    for (BlockHash hash = 1; hash <= 8; ++hash) (void)put_for(*pool, hash, kOther);
    for (BlockHash hash = 1000; hash < 1500; ++hash)
      ASSERT_TRUE(put_for(*pool, hash, kFlooding)) << name_of(policy);
    EXPECT_TRUE(has_all(*pool, 1, 9)) << name_of(policy);
    EXPECT_TRUE(has_all(*pool, 1492, 1500)) << name_of(policy) << ": it keeps its newest";
    const auto figures = pool->figures();
    EXPECT_EQ(figures.quota.tenants, 2U);
    EXPECT_EQ(figures.quota.largest, 8U);
    EXPECT_EQ(figures.quota.evictions, 492U);
    EXPECT_EQ(figures.evictions, 492U);
  }
}

TEST(TenantQuotaTest, its_own_block_used_longest_ago_goes_and_none_that_is_held) {
  const auto pool = quota_pool(16, 4, PolicyKind::lru);
  for (BlockHash hash = 1; hash <= 4; ++hash) (void)put_for(*pool, hash, kFlooding);
  (void)pool->find(1);
  BlockRef held = pool->find(2);
  (void)put_for(*pool, 5, kFlooding);
  EXPECT_FALSE(pool->find(3));
  (void)put_for(*pool, 6, kFlooding);
  EXPECT_FALSE(pool->find(4));
  EXPECT_TRUE(has_all(*pool, 1, 3));
  std::vector<BlockRef> all;
  for (const BlockHash hash : {1, 2, 5, 6}) all.push_back(pool->find(hash));
  const auto none = pool->allocate(1, nullptr, kFlooding);
  EXPECT_EQ(none.code(), Code::exhausted) << "twelve slots are free, and not for it";
  EXPECT_TRUE(pool->allocate(4, nullptr, kOther).ok());
}

TEST(TenantQuotaTest, what_is_given_back_may_be_had_again) {
  const auto pool = quota_pool(8, 2, PolicyKind::lru);
  for (int round = 0; round < 5; ++round) {
    {
      const auto both = pool->allocate(2, nullptr, kFlooding);
      ASSERT_TRUE(both.ok()) << round;
      EXPECT_EQ(pool->allocate(1, nullptr, kFlooding).code(), Code::exhausted);
    }
    const BlockRef twice[] = {put_for(*pool, 1, kFlooding), put_for(*pool, 1, kFlooding)};
    EXPECT_TRUE(twice[0] && twice[1]);
    EXPECT_EQ(pool->figures().quota.largest, 1U) << "a duplicate takes no slot";
    EXPECT_TRUE(pool->drop(1));
    EXPECT_EQ(pool->figures().quota.largest, 1U) << "it is held, and has its slot";
  }
  EXPECT_EQ(pool->figures().quota.tenants, 0U);
}

TEST(TenantQuotaTest, where_shares_make_more_than_the_whole_the_policy_decides_among_all) {
  const auto pool = quota_pool(8, 6, PolicyKind::lru);
  for (BlockHash hash = 1; hash <= 6; ++hash) (void)put_for(*pool, hash, kOther);
  for (BlockHash hash = 11; hash <= 16; ++hash) (void)put_for(*pool, hash, kFlooding);
  EXPECT_TRUE(has_all(*pool, 5, 7)) << "two of the other's are the least that it keeps";
  for (BlockHash hash = 17; hash <= 40; ++hash) (void)put_for(*pool, hash, kFlooding);
  EXPECT_TRUE(has_all(*pool, 5, 7));
}

TEST(TenantQuotaTest, many_tenants_at_once_keep_within_their_shares) {
  constexpr SlotId kSlots = 4096, kMost = 1024;
  BlockDirectory directory;
  const auto pool = quota_pool(kSlots, kMost, PolicyKind::lru, &directory);
  std::vector<std::thread> threads;
  for (TenantId tenant = 1; tenant <= 4; ++tenant) {
    threads.emplace_back([&pool, tenant] {
      std::mt19937_64 random(tenant);
      std::vector<BlockRef> mine;
      for (int step = 0; step < 20'000; ++step) {
        const BlockHash hash = tenant << 32U | random() % 2000;
        if (random() % 4 == 0) (void)pool->drop(hash);
        mine.push_back(random() % 2 == 0 ? pool->find(hash) : put_for(*pool, hash, tenant));
        if (mine.size() > 300) mine.erase(mine.begin(), mine.begin() + 200);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::map<TenantId, std::size_t> counts;
  for (const BlockEvent& here : directory.snapshot()) {
    EXPECT_EQ(here.tenant, here.hash >> 32U);
    ++counts[here.tenant];
  }
  for (const auto& [tenant, count] : counts) EXPECT_LE(count, kMost) << tenant;
  const auto figures = pool->figures();
  EXPECT_EQ(figures.free + figures.registered, kSlots);
  EXPECT_LE(figures.quota.largest, kMost);
}

// Two ask for one tenant that has its share: neither takes the place that the other has made.
TEST(TenantQuotaTest, evictions_are_reported_to_their_cause_also_when_two_ask_at_once) {
  const auto pool = quota_pool(64, 4, PolicyKind::lru);
  std::vector<Evicted> evicted[2];
  std::vector<std::thread> threads;
  for (std::uint64_t side = 0; side < 2; ++side) {
    threads.emplace_back([&pool, &mine = evicted[side], side] {
      for (BlockHash hash = side << 32U; hash < (side << 32U) + 50'000; ++hash) {
        auto room = pool->allocate(1, &mine, kFlooding);
        if (room.ok())
          (void)pool->register_block(
              CompleteBlock(std::move(room->front()), {{hash, {}, kFlooding}, {.value = hash}}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(evicted[0].size() + evicted[1].size(), pool->figures().evictions);
  EXPECT_EQ(pool->figures().quota.largest, 4U);
}

TEST(TenantQuotaTest, a_directory_names_the_first_tenant_while_a_tier_has_the_block) {
  BlockDirectory directory;
  EXPECT_TRUE(directory.add(1, 2));
  EXPECT_EQ(directory.tenant_of(1), 0U);
  EXPECT_TRUE(directory.add(1, 0, {}, kOther));
  EXPECT_FALSE(directory.add(1, 0, {}, kFlooding));
  EXPECT_EQ(directory.tenant_of(1), kOther);
  EXPECT_TRUE(directory.remove(1, 0));
  EXPECT_EQ(directory.tenant_of(1), kOther);
  EXPECT_TRUE(directory.remove(1, 2));
  EXPECT_EQ(directory.tenant_of(1), 0U);
  for (TenantId tenant = 1; tenant < 70'000; ++tenant) directory.add(100 + tenant, 0, {}, tenant);
  EXPECT_EQ(directory.tenant_of(100 + 60'000), 60'000U);
  EXPECT_EQ(directory.tenant_of(100 + 69'000), 0U) << "beyond what there are numbers for";
}

}  // namespace
}  // namespace towpath::kv
