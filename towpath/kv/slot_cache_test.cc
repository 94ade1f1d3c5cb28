#include <algorithm>
#include <list>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include <towpath/kv/slot_cache.h>

namespace towpath::kv {
namespace {

TEST(SlotCacheTest, a_block_is_found_only_once_its_bytes_are_there) {
  SlotCache cache(2);
  const auto slot = cache.reserve({7, {}})->slot;
  EXPECT_FALSE(cache.find(7));
  EXPECT_EQ(cache.reserve({7, {}}).code(), Code::already_exists);
  cache.publish(slot, {.value = 99});
  EXPECT_EQ(cache.find(7), slot);
  EXPECT_EQ(cache.digest(slot).value, 99U);
  const auto other = cache.reserve({8, {}})->slot;
  cache.abandon(other);
  EXPECT_FALSE(cache.find(8));
  EXPECT_EQ(cache.reserve({8, {}})->slot, other) << "an abandoned slot is free again";
}

TEST(SlotCacheTest, the_least_recently_used_goes_and_pinned_ones_stay) {
  SlotCache cache(3);
  for (BlockHash hash : {1U, 2U, 3U})
    cache.publish(cache.reserve({hash, {}})->slot, {.value = hash});
  cache.pin(*cache.find(1));
  ASSERT_TRUE(cache.find(2));
  const auto fourth = cache.reserve({4, {}});
  ASSERT_TRUE(fourth->evicted);
  EXPECT_EQ(fourth->evicted->block.hash, 3U);
  EXPECT_EQ(fourth->evicted->digest.value, 3U);
  EXPECT_EQ(fourth->evicted->slot, fourth->slot);
  EXPECT_EQ(cache.reserve({5, {}})->evicted->block.hash, 2U);
  EXPECT_EQ(cache.reserve({6, {}}).code(), Code::exhausted);
  cache.unpin(*cache.find(1));
  EXPECT_EQ(cache.reserve({6, {}})->evicted->block.hash, 1U);
}

TEST(SlotCacheTest, a_dropped_block_is_found_no_more_and_its_slot_waits_for_the_last_pin) {
  SlotCache cache(1);
  const auto slot = cache.reserve({1, {}})->slot;
  cache.publish(slot, {});
  cache.pin(slot);
  cache.drop(slot);
  EXPECT_FALSE(cache.find(1));
  EXPECT_EQ(cache.reserve({2, {}}).code(), Code::exhausted);
  cache.unpin(slot);
  EXPECT_TRUE(cache.reserve({2, {}}).ok());
}

bool all_pinned(const std::map<BlockHash, std::pair<SlotId, int>>& ready) {
  return std::ranges::all_of(ready, [](const auto& entry) { return entry.second.second > 0; });
}

// Against a list in order of use and a map of pins.
TEST(SlotCacheTest, agrees_with_a_simple_model_over_a_million_steps) {
  std::mt19937_64 random(3);
  SlotCache cache(40);
  std::list<BlockHash> order;  // oldest first
  std::map<BlockHash, std::pair<SlotId, int>> ready;
  for (int step = 0; step < 1'000'000; ++step) {
    const BlockHash hash = random() % 80;
    const auto known = ready.find(hash);
    const auto found = cache.find(hash);
    ASSERT_EQ(found.has_value(), known != ready.end()) << step;
    if (found) {
      order.remove(hash);
      order.push_back(hash);
    }
    switch (random() % 5) {
      case 0:
      case 1: {
        if (found) break;
        const auto reserved = cache.reserve({hash, {}});
        if (!reserved.ok()) {
          ASSERT_TRUE(ready.size() == 40 && all_pinned(ready)) << step;
          break;
        }
        ASSERT_EQ(reserved->evicted.has_value(), ready.size() == 40) << step;
        if (reserved->evicted) {
          const auto oldest =
              std::ranges::find_if(order, [&](BlockHash one) { return ready.at(one).second == 0; });
          ASSERT_EQ(reserved->evicted->block.hash, *oldest) << step;
          ready.erase(*oldest);
          order.erase(oldest);
        }
        if (random() % 8 == 0) {
          cache.abandon(reserved->slot);
        } else {
          cache.publish(reserved->slot, {.value = hash});
          ready[hash] = {reserved->slot, 0};
          order.push_back(hash);
        }
        break;
      }
      case 2:
        if (!found) break;
        cache.pin(*found);
        ++known->second.second;
        break;
      case 3:
        if (!found || known->second.second == 0) break;
        cache.unpin(*found);
        --known->second.second;
        break;
      case 4:
        if (!found || known->second.second != 0 || random() % 4 != 0) break;
        cache.drop(*found);
        order.remove(hash);
        ready.erase(known);
        break;
    }
    ASSERT_EQ(cache.ready(), ready.size());
  }
}

}  // namespace
}  // namespace towpath::kv
