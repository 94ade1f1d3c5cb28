#include <vector>

#include <gtest/gtest.h>

#include <towpath/backend/weak_table.h>

namespace towpath::backend {
namespace {

TEST(WeakTableTest, what_others_hold_is_found_and_what_they_dropped_is_not) {
  WeakTable<int, int> table;
  auto held = std::make_shared<int>(7);
  table.put(1, held);
  EXPECT_EQ(table.find(1), held);
  EXPECT_EQ(table.find(2), nullptr);
  held.reset();
  EXPECT_EQ(table.find(1), nullptr);
}

TEST(WeakTableTest, regions_of_one_file_cost_the_same_each_however_many_there_are) {
  WeakTable<int, int> table;
  std::vector<std::shared_ptr<int>> held;
  for (int i = 0; i < 16'000; ++i) table.put(i, held.emplace_back(std::make_shared<int>(i)));
  EXPECT_LE(table.visited(), 2U * 16'000) << "128 million were, with a sweep at each";
  EXPECT_EQ(table.size(), 16'000U);
}

TEST(WeakTableTest, what_is_dead_does_not_pile_up) {
  WeakTable<int, int> table;
  for (int i = 0; i < 16'000; ++i) table.put(i, std::make_shared<int>(i));
  EXPECT_LE(table.size(), (WeakTable<int, int>::kFew));
}

}  // namespace
}  // namespace towpath::backend
