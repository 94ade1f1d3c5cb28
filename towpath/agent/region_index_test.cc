#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include <towpath/agent/region_index.h>

namespace towpath::agent {
namespace {

RecordPtr record(std::uint64_t address, std::uint64_t length, std::uint64_t device = 0,
                 MemoryKind kind = MemoryKind::system) {
  auto made = std::make_shared<MemoryRecord>();
  made->region = {.kind = kind, .address = address, .length = length, .device_id = device};
  return made;
}

RecordPtr find(RegionIndex& index, MemoryKind kind, const Descriptor& what) {
  return record_of(index.find(kind, what));
}
RecordPtr find_exactly(RegionIndex& index, const RegionDescriptor& region) {
  return record_of(index.find_exactly(region));
}

void take_back(RegionIndex& index, MemoryRecord& record) {
  record.stale = true;
  index.note_gone();
}

TEST(RegionIndexTest, finds_the_region_that_covers_and_no_other) {
  RegionIndex index;
  auto a = record(1000, 100);
  auto b = record(2000, 100);
  index.add(b);
  index.add(a);
  EXPECT_EQ(find(index, MemoryKind::system, {1000, 100, 0}), a);
  EXPECT_EQ(find(index, MemoryKind::system, {2099, 1, 0}), b);
  EXPECT_EQ(find(index, MemoryKind::system, {1050, 51, 0}), nullptr);
  EXPECT_EQ(find(index, MemoryKind::system, {999, 1, 0}), nullptr);
  EXPECT_EQ(find(index, MemoryKind::system, {1000, 1, 1}), nullptr);
  EXPECT_EQ(find(index, MemoryKind::disk, {1000, 1, 0}), nullptr);
}

TEST(RegionIndexTest, a_large_region_is_found_behind_the_small_ones_that_it_nests) {
  RegionIndex index;
  auto large = record(0, 10000);
  index.add(large);
  for (std::uint64_t i = 1; i < 50; ++i) index.add(record(i * 100, 10));
  EXPECT_EQ(find(index, MemoryKind::system, {4950, 100, 0}), large);
  EXPECT_EQ(find(index, MemoryKind::system, {100, 10, 0})->region.length, 10U);
}

TEST(RegionIndexTest, of_those_that_start_at_one_place_the_longest_wins) {
  RegionIndex index;
  auto longest = record(0, 30);
  index.add(record(0, 10));
  index.add(longest);
  index.add(record(0, 20));
  EXPECT_EQ(find(index, MemoryKind::system, {0, 5, 0}), longest);
  EXPECT_EQ(find(index, MemoryKind::system, {5, 25, 0}), longest);
  EXPECT_EQ(find(index, MemoryKind::system, {5, 26, 0}), nullptr);
}

// What hostile metadata may hold, at the cost of an honest one.
TEST(RegionIndexTest, takes_no_more_steps_for_regions_that_crowd_one_place) {
  constexpr std::uint64_t kCount = 200'000;
  constexpr std::uint64_t kStepsEach = 200;  // some times the logarithm
  RegionIndex index;
  for (std::uint64_t i = 0; i < kCount; ++i) index.add(record(1000, i % 1000 + 1));
  const auto large = record(0, 1'000'000);
  index.add(large);
  for (std::uint64_t i = 0; i < kCount; ++i)
    ASSERT_NE(find_exactly(index, record(1000, i % 1000 + 1)->region), nullptr);
  for (std::uint64_t i = 0; i < kCount; ++i)
    ASSERT_EQ(find(index, MemoryKind::system, {3000 + i, 1, 0}), large);
  EXPECT_LT(index.steps(), kCount * kStepsEach);
}

TEST(RegionIndexTest, among_equals_the_first_wins_and_stale_ones_never_do) {
  RegionIndex index;
  auto first = record(0, 10);
  auto second = record(0, 10);
  index.add(first);
  index.add(second);
  EXPECT_EQ(find_exactly(index, second->region), first);
  first->stale = true;
  EXPECT_EQ(find(index, MemoryKind::system, {0, 10, 0}), second);
  EXPECT_EQ(find_exactly(index, second->region), second);
  take_back(index, *second);
  EXPECT_EQ(find_exactly(index, second->region), nullptr);
}

TEST(RegionIndexTest, what_is_gone_goes_from_the_index_too) {
  RegionIndex index;
  std::vector<RecordPtr> all;
  for (std::uint64_t i = 0; i < 1000; ++i) index.add(all.emplace_back(record(i * 100, 10)));
  for (std::size_t gone = 0; gone < all.size(); ++gone) {
    take_back(index, *all[gone]);
    ASSERT_LE(index.entries().size(), (all.size() - gone) * 2);
  }
  EXPECT_TRUE(index.entries().empty());
}

// A buffer that is registered for each use, beside a pool.
TEST(RegionIndexTest, what_comes_and_goes_at_one_place_does_not_pile_up) {
  RegionIndex index;
  for (std::uint64_t i = 1; i <= 800; ++i) index.add(record(i * 100, 10));
  for (int round = 0; round < 2000; ++round) {
    const RecordPtr one = record(0, 10);
    ASSERT_EQ(find_exactly(index, one->region), nullptr);
    index.add(one);
    take_back(index, *one);
    ASSERT_LE(index.entries().size(), 800U * 8 / 7 + 2);
  }
}

// As they are registered: each is looked for before it is added.
TEST(RegionIndexTest, regions_in_any_order_are_found_while_they_come) {
  std::mt19937_64 random(5);
  std::vector<RecordPtr> all;
  for (std::uint64_t i = 0; i < 2000; ++i) all.push_back(record(i * 100, 10));
  std::ranges::shuffle(all, random);
  RegionIndex index;
  for (const RecordPtr& one : all) {
    ASSERT_EQ(find_exactly(index, one->region), nullptr);
    index.add(one);
    ASSERT_EQ(find_exactly(index, one->region), one);
  }
  for (const RecordPtr& one : all) ASSERT_EQ(find_exactly(index, one->region), one);
  EXPECT_LT(index.steps(), 3 * all.size() * 100);  // not as many for each as there are
}

TEST(RegionIndexTest, agrees_with_a_plain_search_whatever_is_added_and_removed) {
  std::mt19937_64 random(7);
  RegionIndex index;
  std::vector<RecordPtr> all;
  for (int step = 0; step < 3000; ++step) {
    const auto pick = random() % 4;
    if (pick < 2 || all.empty()) {
      all.push_back(record(random() % 500, 1 + random() % 60, random() % 2));
      index.add(all.back());
    } else if (pick == 2 && all.size() > 40) {
      const auto victim = random() % all.size();
      take_back(index, *all[victim]);
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(victim));
    }
    const Descriptor what{random() % 500, random() % 40, random() % 2};
    std::uint64_t best = 0;
    bool any = false;
    for (const auto& candidate : all) {
      if (!candidate->region.covers(what)) continue;
      best = any ? std::max(best, candidate->region.address) : candidate->region.address;
      any = true;
    }
    const auto found = find(index, MemoryKind::system, what);
    ASSERT_EQ(found != nullptr, any) << "step " << step;
    if (found) {
      ASSERT_TRUE(found->region.covers(what));
      ASSERT_EQ(found->region.address, best) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace towpath::agent
